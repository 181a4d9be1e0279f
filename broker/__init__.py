"""The Kafka side: logs, the tap, the enforcer, cluster administration, and a broker on this machine.

In this package, "the class" is `pidquota.Reporter`, which brokers load. It writes lines that the tap reads.
"""

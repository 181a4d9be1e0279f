"""The Kafka side: logs, the tap, the enforcer, cluster administration, and a broker on this machine."""

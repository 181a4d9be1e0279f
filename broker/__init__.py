"""The Kafka side: the plugins' reports, the enforcer, cluster administration, and a broker on this machine."""

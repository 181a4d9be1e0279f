"""The Kafka side: the plugins' reports, holds, cluster administration, and a broker on this machine."""

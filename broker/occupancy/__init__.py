"""A census of the producer ids that all brokers hold."""

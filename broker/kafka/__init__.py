"""Reads and changes Kafka's settings, topics, quotas and brokers as a client. Calls raise `BrokerError`s."""

"""Kafka's settings, topics, quotas and brokers, as clients see and change them."""

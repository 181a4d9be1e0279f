"""Reads and changes Kafka's settings, topics, quotas and brokers as a client.

Calls raise subclasses of `BrokerError`, such as `BrokerUnreachableError` if no broker answers.
"""

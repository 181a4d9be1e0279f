"""Reads and changes Kafka's settings, topics, quotas and brokers as a client.

Every call raises `BrokerUnreachableError` if no broker answers, and `ClusterRequestError` if a broker refuses.
"""

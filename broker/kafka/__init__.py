"""Kafka's settings, topics, quotas and brokers, as clients see and change them.

Every call raises `BrokerUnreachableError` if no broker answers, and `ClusterRequestError` if it refuses.
"""

"""Which brokers of a cluster can be asked."""

from collections.abc import Mapping
from typing import Any


def live_brokers(cluster: Mapping[str, Any]) -> list[int]:
    """Return the ids of the brokers that are up, sorted. One that was killed counts as up until its session ends (9 s).

    Args:
        cluster: What kafka-python's `describe_cluster` returns, which includes brokers that are down, but registered.
    """
    brokers = [each for each in cluster["brokers"] if not each.get("is_fenced")]
    # Before Kafka 2.8 the answer comes from metadata, which has another name for it.
    return sorted(int(each.get("broker_id", each.get("node_id"))) for each in brokers)

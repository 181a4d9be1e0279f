"""The demo's broker, with the plugin, and the topic of the demo's clients."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.local.local_broker import DEFAULT_USERS, LocalBroker
from jobs.demo.clients import ORDERS

_ORDERS_PARTITIONS = 3


def demo_broker(folder: Path, users: Mapping[str, str] = DEFAULT_USERS, **server_properties: Any) -> LocalBroker:
    """Return a broker that supports holds, and whose plugin makes one partition of events."""
    # Spark runs a task per partition and batch, and one partition is enough.
    return LocalBroker(folder, users=users, holds=True, pid_quota_partitions=1, **server_properties)


def create_orders(settings: Mapping[str, str]) -> None:
    """Create the topic that the demo's clients write to."""
    # Keep a reference: the future never completes after the client is garbage-collected.
    admin = AdminClient(dict(settings) | {"log_level": 0})
    admin.create_topics([NewTopic(ORDERS, num_partitions=_ORDERS_PARTITIONS)])[ORDERS].result()

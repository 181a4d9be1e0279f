"""The demo's broker, with the plugin."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.local.local_broker import DEFAULT_USERS, LocalBroker


def demo_broker(folder: Path, users: Mapping[str, str] = DEFAULT_USERS, **server_properties: Any) -> LocalBroker:
    """Return a broker that supports holds, and whose plugin makes one partition of events."""
    # Spark runs a task per partition and batch, and one partition is enough.
    return LocalBroker(folder, users=users, holds=True, pid_quota_partitions=1, **server_properties)

"""The tap's Prometheus metrics, taken from its heartbeats, so that scrapes never touch the tap's state."""

import threading
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from wire.heartbeat import TapHeartbeat

_COUNTERS = {
    "lines": "Lines read, of any kind.",
    "events": "Batches sent or waiting.",
    "unplaced": "Of these, sent with the principal unknown.",
    "bad_lines": "Lines truncated, damaged or of an unknown form.",
    "lost_files": "Times lines were deleted before they were read: rotated files, records of a topic.",
    "lost_lines": "Line numbers that never arrived.",
}


class TapMetrics(Collector):
    """Exposes the newest heartbeats. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[int, TapHeartbeat] = {}
        self._cluster: set[int] = set()

    def observe(self, heartbeat: TapHeartbeat) -> None:
        """Record a heartbeat."""
        with self._lock:
            self._newest[heartbeat.broker_id] = heartbeat
            # An empty list means that Kafka did not answer in time.
            self._cluster = set(heartbeat.cluster_brokers) or self._cluster

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, by broker."""
        with self._lock:
            heartbeats, cluster = [self._newest[each] for each in sorted(self._newest)], sorted(self._cluster)
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"pid_quota_tap_{name}", text, labels=["broker"])
            for each in heartbeats:
                counter.add_metric([str(each.broker_id)], each.counters.get(name, 0))
            yield counter
        yield _gauge("tap_behind_bytes", "Bytes of its file not read yet.", _values(heartbeats, "behind_bytes"))
        yield _gauge("tap_behind_records", "Records of its topic not read yet.", _values(heartbeats, "lag_records"))
        yield _gauge(
            "tap_unplaced_share",
            "Share of batches between its last two heartbeats sent as unknown: 0 to 1.",
            _values(heartbeats, "unplaced_share"),
        )
        heard = [(each.broker_id, each.timestamp_ms / 1000) for each in heartbeats]
        yield _gauge("tap_heartbeat_timestamp_seconds", "Time of the tap's last heartbeat.", heard)
        yield _gauge("tap_watches", "The tap watches this broker.", [(each.broker_id, 1) for each in heartbeats])
        yield _gauge("cluster_broker", "The cluster has this broker, as the tap saw.", [(each, 1) for each in cluster])


def _values(heartbeats: list[TapHeartbeat], name: str) -> list[tuple[int, float]]:
    values = [(each.broker_id, getattr(each, name)) for each in heartbeats]
    return [(broker_id, value) for broker_id, value in values if value is not None]


def _gauge(name: str, text: str, values: list[tuple[int, float]]) -> Metric:
    family = GaugeMetricFamily(f"pid_quota_{name}", text, labels=["broker"])
    for broker_id, value in values:
        family.add_metric([str(broker_id)], value)
    return family

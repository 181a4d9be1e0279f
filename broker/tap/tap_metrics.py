"""The tap's Prometheus metrics, taken from its heartbeats, so that scrapes never touch the tap's state."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from wire.heartbeat import TapHeartbeat

_COUNTERS = {
    "lines": "Lines of a broker's log that the tap has read, of any kind.",
    "events": "Batches that the tap made events of, sent or waiting for an owner.",
    "unplaced": "Events that the tap sent with the principal unknown.",
    "bad_lines": "Lines of a broker's log that were cut, damaged or of an unknown form.",
    "lost_files": "Times that lines were deleted before the tap read them: rotated files, records of a topic.",
    "lost_lines": "Numbered lines of a broker's log that never arrived.",
}


SILENT_S = 60
MOST_BYTES, MOST_RECORDS = 10_000_000, 10_000
"""How far behind a tap is still level with its log: a tenth of what the alert `PidQuotaTapBehind` allows."""


class TapMetrics(Collector):
    """Exposes the newest heartbeats. Thread-safe.

    Args:
        clock: Seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._newest: dict[int, TapHeartbeat] = {}
        self._cluster: set[int] = set()

    def observe(self, heartbeat: TapHeartbeat) -> None:
        """Record a heartbeat."""
        with self._lock:
            self._newest[heartbeat.broker_id] = heartbeat
            # An empty list means that Kafka did not answer in time.
            self._cluster = set(heartbeat.cluster_brokers) or self._cluster

    def unready(self) -> str:
        """Return why the tap is not level with a broker's log; empty if it is with all."""
        with self._lock:
            heartbeats = list(self._newest.values())
        if not heartbeats:
            return "no heartbeat yet"
        return "; ".join(f"broker {each.broker_id}: {why}" for each in heartbeats if (why := self._behind(each)))

    def _behind(self, heartbeat: TapHeartbeat) -> str:
        silent_s = self._clock() - heartbeat.timestamp_ms / 1000
        if silent_s > SILENT_S:
            return f"no heartbeat for {silent_s:.0f} s"
        if heartbeat.lacks_file:
            return "its log file is not there"
        if (heartbeat.behind_bytes or 0) > MOST_BYTES:
            return f"{heartbeat.behind_bytes} bytes of its log not read yet"
        if (heartbeat.lag_records or 0) > MOST_RECORDS:
            return f"{heartbeat.lag_records} records of its log not read yet"
        return ""

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, by broker."""
        with self._lock:
            heartbeats, cluster = [self._newest[each] for each in sorted(self._newest)], sorted(self._cluster)
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"pid_quota_tap_{name}", text, labels=["broker"])
            for each in heartbeats:
                counter.add_metric([str(each.broker_id)], each.counters.get(name, 0))
            yield counter
        text = "Bytes of a broker's log file that the tap has not read yet."
        yield _gauge("tap_behind_bytes", text, _values(heartbeats, "behind_bytes"))
        text = "Records of the topic of log lines that the tap has not read yet."
        yield _gauge("tap_behind_records", text, _values(heartbeats, "lag_records"))
        yield _gauge(
            "tap_unplaced_share",
            "Share of the batches between the tap's last two heartbeats sent as unknown: 0 to 1.",
            _values(heartbeats, "unplaced_share"),
        )
        heard = [(each.broker_id, each.timestamp_ms / 1000) for each in heartbeats]
        yield _gauge("tap_heartbeat_timestamp_seconds", "Unix time of the tap's last heartbeat for a broker.", heard)
        watched = [(each.broker_id, 1) for each in heartbeats]
        yield _gauge("tap_watches", "1 for each broker that the tap watches.", watched)
        text = "1 for each broker of the cluster, as the tap last saw it."
        yield _gauge("cluster_broker", text, [(each, 1) for each in cluster])


def _values(heartbeats: list[TapHeartbeat], name: str) -> list[tuple[int, float]]:
    values = [(each.broker_id, getattr(each, name)) for each in heartbeats]
    return [(broker_id, value) for broker_id, value in values if value is not None]


def _gauge(name: str, text: str, values: Sequence[tuple[int, float]]) -> Metric:
    family = GaugeMetricFamily(f"pid_quota_{name}", text, labels=["broker"])
    for broker_id, value in values:
        family.add_metric([str(broker_id)], value)
    return family

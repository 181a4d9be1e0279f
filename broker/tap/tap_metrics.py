"""The tap's Prometheus metrics, which come from heartbeats."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from wire.heartbeat import TapHeartbeat

_COUNTERS = {
    "lines": "Lines of brokers' classes that the tap has read, of any kind.",
    "events": "Batches that the tap made events of.",
    "bad_lines": "Lines that the tap could not read: cut, damaged or of another writer.",
    "lost_files": "Times that lines were deleted before the tap read them: rotated files, records of a topic.",
    "lost_lines": "Numbered lines of a broker that never arrived.",
    "dropped_lines": "Lines that the class in a broker could not write since the broker loaded it.",
}
SILENT_S = 60
MAX_BYTES, MAX_RECORDS = 10_000_000, 10_000
"""Maximum lag of a ready tap, a tenth of the limit in the alert `PidQuotaTapBehind`."""


class TapMetrics(Collector):
    """Metrics of the newest heartbeats. All methods are thread-safe."""

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
        """Return why the tap is not ready, or an empty text."""
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
            return "its file of lines is missing"
        if heartbeat.problem:
            return heartbeat.problem
        if (heartbeat.behind_bytes or 0) > MAX_BYTES:
            return f"{heartbeat.behind_bytes} bytes of its lines not read yet"
        if (heartbeat.lag_records or 0) > MAX_RECORDS:
            return f"{heartbeat.lag_records} records of its lines not read yet"
        return ""

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        with self._lock:
            heartbeats, cluster = [self._newest[each] for each in sorted(self._newest)], sorted(self._cluster)
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"pid_quota_tap_{name}", text, labels=["broker"])
            for each in heartbeats:
                counter.add_metric([str(each.broker_id)], each.counters.get(name, 0))
            yield counter
        text = "Bytes of a broker's file of lines that the tap has not read yet."
        yield _gauge("tap_behind_bytes", text, {each.broker_id: each.behind_bytes for each in heartbeats})
        text = "Records of the topic of lines that the tap has not read yet."
        yield _gauge("tap_behind_records", text, {each.broker_id: each.lag_records for each in heartbeats})
        lines = {each.broker_id: each.newest_line_ms / 1000 for each in heartbeats if each.newest_line_ms is not None}
        text = "Unix time of the newest line of the class in a broker, which writes one every 10 s."
        yield _gauge("tap_newest_line_timestamp_seconds", text, lines)
        text = "1 if the class in a broker is not loaded or can't see the batches, 0 if it reports them."
        yield _gauge("tap_class_problem", text, {each.broker_id: int(bool(each.problem)) for each in heartbeats})
        heard = {each.broker_id: each.timestamp_ms / 1000 for each in heartbeats}
        yield _gauge("tap_heartbeat_timestamp_seconds", "Unix time of the tap's last heartbeat for a broker.", heard)
        watched = dict.fromkeys(heard, 1)
        yield _gauge("tap_watches", "1 for each broker that the tap watches.", watched)
        text = "1 for each broker of the cluster, as the tap last saw it."
        yield _gauge("cluster_broker", text, dict.fromkeys(cluster, 1))


def _gauge(name: str, text: str, values: Mapping[int, float | None]) -> Metric:
    family = GaugeMetricFamily(f"pid_quota_{name}", text, labels=["broker"])
    for broker_id, value in values.items():
        if value is not None:
            family.add_metric([str(broker_id)], value)
    return family

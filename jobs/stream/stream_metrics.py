"""The stream's Prometheus metrics: KIP-936's per principal, and the stream's own health.

Names follow Kafka's MBeans: `kafka.server:type=ProducerIds,user=alice` with `rate`, `tokens` and `throttle-time`.
The top principals have their own series and all others share one, so made-up principals add no series.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jobs.stream.batch_times import BatchTimes
from quota.config import QuotaConfig
from quota.principals import UNKNOWN_PRINCIPAL
from streaming.commit.sinks import BatchSummary
from streaming.listener import Progress

OTHER = "other"
"""Label of all principals without their own series."""
STREAM_QUERY = "pid-quota"
SILENT_S = 300
"""Longest silence of a stream that is ready; the alert `PidQuotaStreamSilent` has the same."""
MAX_LABEL_CHARS = 200


class _Row(msgspec.Struct):
    """The used fields of the operator's rows of `producer_id_metrics`."""

    principal: str
    broker_id: int | None
    as_of: int
    rate: float | None
    tokens: float | None
    throttle_time_avg_ms: float | None
    new_pids_window: int
    quota: float | None
    burst: float | None
    active_pids: int
    state_bytes: int
    phase: str
    saturated: bool


class _Decision(msgspec.Struct):
    """The used fields of the operator's rows of `throttle_decisions`."""

    principal: str
    broker_id: int | None
    action: str
    decided_at: int
    throttled_until: int


@dataclass(frozen=True)
class _Series:
    """The values of one label, of one or several principals."""

    rate: float = 0.0
    tokens: float | None = None
    throttle_time_avg_ms: float | None = None
    throttle_time_s: float = 0.0
    new_pids: int = 0
    quota: float | None = None
    burst: float | None = None
    active_pids: int = 0
    throttles: int = 0

    def plus(self, other: "_Series") -> "_Series":
        """Return the sums, and the longest throttle times."""
        return _Series(
            self.rate + other.rate,
            _sum(self.tokens, other.tokens),
            _longest(self.throttle_time_avg_ms, other.throttle_time_avg_ms),
            max(self.throttle_time_s, other.throttle_time_s),
            self.new_pids + other.new_pids,
            _sum(self.quota, other.quota),
            _sum(self.burst, other.burst),
            self.active_pids + other.active_pids,
            self.throttles + other.throttles,
        )


_OF_A_USER = {
    "kafka_server_producerids_rate": (
        "rate",
        "Kafka's sampled rate: new producer ids of a user per quota window, a mean over ten to eleven windows. "
        "pid_quota_window_pids tells the number in the last window.",
    ),
    "kafka_server_producerids_tokens": ("tokens", "New producer ids that a user has left; below 0 when exhausted."),
    "kafka_server_producerids_throttle_time_avg_ms": (
        "throttle_time_avg_ms",
        f"Mean throttle time of a user over the throttled ticks of the last window; of {OTHER} the longest.",
    ),
    "pid_quota_throttle_time_seconds": (
        "throttle_time_s",
        f"Seconds until a user has tokens again; of {OTHER} the longest.",
    ),
    "pid_quota_window_pids": (
        "new_pids",
        "New producer ids of a user in the last quota window, also refused ones.",
    ),
    "pid_quota_limit_pids": ("quota", "Quota of a user, in new producer ids per window."),
    "pid_quota_burst_pids": ("burst", "Tokens of a user's full bucket: new producer ids at once."),
    "pid_quota_active_pids": ("active_pids", "Producer ids of a user that are remembered."),
    "pid_quota_throttles_in_force": ("throttles", "Throttle decisions against a user that hold now."),
}
"""Metrics of a principal: the attribute of `_Series`, and the help."""
_Key = tuple[str, int | None]
_Labels = tuple[str, str]


class StreamMetrics(Collector):
    """Collects the batches' metrics for Prometheus. Thread-safe."""

    def __init__(
        self, config: QuotaConfig, *, top: int = 100, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        """Start without metrics.

        Args:
            config: Window of the stream, to refill tokens.
            top: Number of principals with their own series.
            clock_ms: Wall clock, in milliseconds since the epoch.
        """
        self._config, self._top, self._clock_ms = config, top, clock_ms
        self._lock = threading.Lock()
        self._rows: dict[_Key, _Row] = {}
        self._throttles: dict[_Key, _Decision] = {}
        # Prometheus misses the first increase of a counter that starts at 1.
        self._decisions: Counter[str] = Counter(THROTTLE=0, RELEASE=0)
        self._records: Counter[str] = Counter()
        self._progress: dict[str, Progress] = {}
        self._heard_ms: dict[str, int] = {}
        self._batch_times = BatchTimes()
        self._quarantined = 0
        self._commit_seconds = 0.0

    def observe(self, batch: BatchSummary) -> None:
        """Record a committed batch."""
        rows = msgspec.convert(batch.rows.get("producer_id_metrics", []), list[_Row])
        decisions = msgspec.convert(batch.rows.get("throttle_decisions", []), list[_Decision])
        with self._lock:
            for row in rows:
                key = (row.principal, row.broker_id)
                known = self._rows.get(key)
                if known is None or known.as_of <= row.as_of:
                    self._rows[key] = row
            for decision in sorted(decisions, key=lambda each: (each.decided_at, each.action)):
                self._decisions[decision.action] += 1
                self._throttles[decision.principal, decision.broker_id] = decision
            self._quarantined += len(batch.rows.get("quarantined_events", []))
            self._commit_seconds = batch.commit_seconds
            self._forget()

    def report(self, progress: Progress) -> None:
        """Record Spark's progress of any query."""
        with self._lock:
            self._progress[progress.query] = progress
            self._records[progress.query] += progress.records
            self._batch_times.add(progress.query, progress.batch_seconds)
            self._heard_ms[progress.query] = self._clock_ms()

    def idle(self, query: str) -> None:
        """Record that a query is alive and idle."""
        with self._lock:
            self._heard_ms[query] = self._clock_ms()
            known = self._progress.get(query)
            if known is not None:
                self._progress[query] = replace(known, records_behind=0)

    def unready(self) -> str:
        """Return why the stream is not ready: no micro-batch ended, or none lately; empty if it is."""
        with self._lock:
            heard_ms = self._heard_ms.get(STREAM_QUERY)
        if heard_ms is None:
            return "no micro-batch has ended yet"
        silent_s = (self._clock_ms() - heard_ms) / 1000
        return f"no micro-batch has ended for {silent_s:.0f} s" if silent_s > SILENT_S else ""

    def collect(self) -> Iterator[Metric]:
        """Return all metrics as of now."""
        with self._lock:
            now_ms = self._clock_ms()
            self._forget()
            rows = list(self._rows.values())
            labelled = self._labelled(now_ms)
            progress, heard_ms = dict(self._progress), dict(self._heard_ms)
            rest = [*self._totals(rows), *self._health(progress, heard_ms)]
        yield from _principal_families(labelled)
        yield from rest

    def _forget(self) -> None:
        """Evict principals silent for a window, and throttles that ended."""
        now_ms = self._clock_ms()
        oldest_ms = now_ms - self._config.window_ms
        self._rows = {key: row for key, row in self._rows.items() if row.as_of > oldest_ms}
        self._throttles = {
            key: decision
            for key, decision in self._throttles.items()
            if decision.action == "THROTTLE" and decision.throttled_until > now_ms
        }

    def _labelled(self, now_ms: int) -> dict[_Labels, _Series]:
        series: dict[_Labels, tuple[bool, _Series]] = {}
        for key in self._rows.keys() | self._throttles.keys():
            labels = label_of(key[0]), "" if key[1] is None else str(key[1])
            pinned, before = series.get(labels, (False, _Series()))
            series[labels] = (pinned or key[0] == UNKNOWN_PRINCIPAL, before.plus(self._series(key, now_ms)))
        ranked = sorted(
            series.items(),
            key=lambda item: (
                not item[1][0],
                -item[1][1].throttles,
                -item[1][1].new_pids,
                -item[1][1].active_pids,
                item[0],
            ),
        )
        told = {labels: each for labels, (_, each) in ranked[: self._top]}
        for labels, (_, each) in ranked[self._top :]:
            rest = (OTHER, labels[1])
            told[rest] = told.get(rest, _Series()).plus(each)
        return told

    def _series(self, key: _Key, now_ms: int) -> _Series:
        """Return a principal's values as of now: a silent one writes no row, but its tokens refill."""
        throttles = int(key in self._throttles)
        row = self._rows.get(key)
        if row is None:
            return _Series(throttles=throttles)
        tokens, throttle_time_s = row.tokens, 0.0
        if tokens is not None and row.quota:
            refilled = tokens + row.quota * max(0, now_ms - row.as_of) / self._config.window_ms
            tokens = min(row.burst or row.quota, refilled)
            throttle_time_s = max(0.0, -tokens) / row.quota * self._config.window_ms / 1000
        return _Series(
            row.rate or 0.0,
            tokens,
            row.throttle_time_avg_ms,
            throttle_time_s,
            row.new_pids_window,
            row.quota,
            row.burst,
            row.active_pids,
            throttles,
        )

    def _totals(self, rows: Sequence[_Row]) -> Iterator[Metric]:
        gauge = GaugeMetricFamily
        yield gauge("pid_quota_principals", "Principals with a row of metrics in the last quota window.", len(rows))
        learning = sum(row.phase == "learning" for row in rows)
        text = "Principals whose new producer ids are not charged yet, while the stream or a tap learns."
        yield gauge("pid_quota_learning_principals", text, learning)
        saturated = sum(row.saturated for row in rows)
        text = "Principals whose filter is full, so that they are reported and not throttled."
        yield gauge("pid_quota_saturated_principals", text, saturated)
        ledgers = sum(row.state_bytes for row in rows)
        text = "Bytes of the ledgers of all principals with a row in the last quota window."
        yield gauge("pid_quota_ledger_bytes", text, ledgers)
        yield _counter("pid_quota_decisions", "Throttle decisions, by action.", "action", self._decisions)
        text = "Records of the topic of events that were no event."
        yield CounterMetricFamily("pid_quota_quarantined_records", text, self._quarantined)
        text = "Seconds that the stream's last micro-batch took to write the tables."
        yield gauge("pid_quota_commit_seconds", text, self._commit_seconds)

    def _health(self, progress: Mapping[str, Progress], heard_ms: Mapping[str, int]) -> Iterator[Metric]:
        of = progress.items()
        yield _counter("pid_quota_stream_records", "Records that a query has read.", "query", self._records)
        yield _gauge(
            "pid_quota_stream_batch_id", "Number of a query's last micro-batch.", ((q, p.batch_id) for q, p in of)
        )
        text = "Seconds that a query's last micro-batch took."
        yield _gauge("pid_quota_stream_batch_seconds", text, ((q, p.batch_seconds) for q, p in of))
        yield self._batch_times.family()
        yield _gauge(
            "pid_quota_stream_records_behind",
            "Records in a query's topic that were not read yet when the last micro-batch began.",
            ((q, p.records_behind) for q, p in of),
        )
        text = "Rows in Spark's state store of a query: buckets of principals, or principals."
        yield _gauge("pid_quota_state_rows", text, ((q, p.state_rows) for q, p in of))
        text = "Bytes of memory of Spark's state store of a query."
        yield _gauge("pid_quota_state_bytes", text, ((q, p.state_bytes) for q, p in of))
        yield _gauge(
            "pid_quota_stream_heard_timestamp_seconds",
            "Unix time when a query last ended a micro-batch or found nothing to read.",
            ((query, ms / 1000) for query, ms in heard_ms.items()),
        )


def label_of(principal: str) -> str:
    r"""Return a principal's label: of a user the bare name, as in Kafka's MBeans.

    Names come from strangers: they are truncated, and invalid Unicode is replaced.

    Examples:
        >>> label_of("User:alice"), label_of("Role:a"), label_of("unknown"), label_of("User:\ud800")
        ('alice', 'Role:a', 'unknown', '?')
    """
    kind, _, name = principal.partition(":")
    label = name if kind == "User" and name else principal
    return label.encode(errors="replace").decode()[:MAX_LABEL_CHARS]


def _principal_families(series: Mapping[_Labels, _Series]) -> Iterator[Metric]:
    # In scope `broker` a principal has a budget on each.
    names = ["user", "broker"] if any(broker for _, broker in series) else ["user"]
    for name, (attribute, text) in _OF_A_USER.items():
        told = GaugeMetricFamily(name, text, labels=names)
        for labels, each in series.items():
            found = getattr(each, attribute)
            if found is not None:
                told.add_metric(labels[: len(names)], found)
        yield told


def _gauge(name: str, text: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["query"])
    for query, value in values:
        family.add_metric([query], value)
    return family


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _longest(*times: float | None) -> float | None:
    return max((each for each in times if each is not None), default=None)


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other

"""The stream's Prometheus metrics: KIP-936's metrics per principal, and the stream's health.

Names follow Kafka's MBeans: `kafka.server:type=ProducerIds,user=alice` with `rate`, `tokens` and `throttle-time`. Each
of the top principals has its own series; the others share one.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jobs.stream.hold_metrics import HoldMetrics
from jobs.stream.plugin_metrics import PluginMetrics
from quota.config import QuotaConfig
from quota.principals import UNKNOWN_PRINCIPAL
from streaming.commit.sinks import BatchSummary
from streaming.listener import Progress

OTHER = "other"
"""Label of the series that the other principals share."""
STREAM_QUERY = "pid-quota"
SILENT_S = 300
"""A stream is ready for this long after a batch or an empty trigger. The alert `PidQuotaStreamSilent` uses it, too."""
MAX_LABEL_CHARS = 200


class _Row(msgspec.Struct):
    principal: str
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
    principal: str
    action: str
    decided_at: int
    throttled_until: int


@dataclass(frozen=True)
class Totals:
    """The number of principals active in the last quota window, and the number throttled now."""

    principals: int
    throttled: int


def _longest(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other


_Values = dict[str, float | None]
"""The values of one principal's series, by metric name."""
_RATE, _TOKENS = "kafka_server_producerids_rate", "kafka_server_producerids_tokens"
_AVERAGE_MS, _THROTTLE_S = "kafka_server_producerids_throttle_time_avg_ms", "pid_quota_throttle_time_seconds"
_NEW, _QUOTA, _BURST = "pid_quota_window_pids", "pid_quota_limit_pids", "pid_quota_burst_pids"
_ACTIVE, _THROTTLES = "pid_quota_active_pids", "pid_quota_throttles_in_force"
_OF_A_USER: dict[str, tuple[Callable[[float | None, float | None], float | None], str]] = {
    _RATE: (
        _sum,
        "Kafka's sampled rate: new producer ids of a user per quota window, averaged over 10 to 11 windows. "
        "pid_quota_window_pids is the number in the last window.",
    ),
    _TOKENS: (_sum, "Tokens of a user: new producer ids that still fit; below 0 when exhausted."),
    _AVERAGE_MS: (
        _longest,
        f"Mean throttle time of a user over the throttled ticks of the last window; the maximum for {OTHER}.",
    ),
    _THROTTLE_S: (_longest, f"Seconds until a user has tokens again; the maximum for {OTHER}."),
    _NEW: (_sum, "New producer ids of a user in the last quota window, including refused ones."),
    _QUOTA: (_sum, "Quota of a user, in new producer ids per window."),
    _BURST: (_sum, "Tokens of a user's full bucket: new producer ids at once."),
    _ACTIVE: (_sum, "Producer ids of a user that are remembered."),
    _THROTTLES: (_sum, "Throttle decisions against a user that are in force."),
}
"""Metrics of a principal: the function that combines several principals' values, and the help text."""
_OF_ALL_PRINCIPALS: tuple[tuple[str, str, Callable[[_Row], bool]], ...] = (
    ("pid_quota_principals", "Principals with a row of metrics in the last quota window.", lambda _: True),
    (
        "pid_quota_learning_principals",
        "Principals whose old producer ids are not charged, while the stream learns.",
        lambda row: row.phase == "learning",
    ),
    (
        "pid_quota_saturated_principals",
        "Principals whose filter is full: they are reported and not throttled.",
        lambda row: row.saturated,
    ),
)
"""Gauges that count principals: name, help text, and the condition that a principal's row fulfils."""
_OF_A_QUERY = (
    ("pid_quota_stream_batch_id", "Number of a query's last micro-batch.", "batch_id"),
    ("pid_quota_stream_batch_seconds", "Seconds that a query's last micro-batch took.", "batch_seconds"),
    (
        "pid_quota_stream_records_behind",
        "Unread records in a query's topic when the last micro-batch began.",
        "records_behind",
    ),
    (
        "pid_quota_state_rows",
        "Rows in Spark's state store of a query: buckets of principals, or principals.",
        "state_rows",
    ),
    ("pid_quota_state_bytes", "Bytes of memory of Spark's state store of a query.", "state_bytes"),
)
"""Gauges of a query: name, help text, and attribute of `Progress`."""
_BATCH_BOUNDS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Histogram bounds."""
_Family = TypeVar("_Family", CounterMetricFamily, GaugeMetricFamily)


class StreamMetrics(Collector):
    """A collector of a stream's metrics for Prometheus. Thread-safe.

    Attributes:
        plugins: The metrics of the brokers' plugins.
        holds: The metrics of holds.
    """

    def __init__(
        self, config: QuotaConfig, *, top: int = 100, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._config, self._top, self._clock_ms = config, top, clock_ms
        self._lock = threading.Lock()
        self._rows: dict[str, _Row] = {}
        self._throttles: dict[str, _Decision] = {}
        self.plugins, self.holds = PluginMetrics(), HoldMetrics()
        # Start at 0, because Prometheus misses the first increase of a counter that starts at 1.
        self._decisions: Counter[str] = Counter(THROTTLE=0, RELEASE=0)
        self._records: Counter[str] = Counter()
        self._progress: dict[str, Progress] = {}
        self._heard_ms: dict[str, int] = {}
        self._batch_times = Histogram(
            "pid_quota_stream_batch_duration_seconds",
            "Seconds that a query's micro-batches took, from trigger to commit.",
            ["query"],
            registry=None,
            buckets=_BATCH_BOUNDS_S,
        )
        self._quarantined = 0
        self._commit_seconds = 0.0

    def observe(self, batch: BatchSummary) -> None:
        """Record a committed batch."""
        rows = msgspec.convert(batch.rows.get("producer_id_metrics", []), list[_Row])
        decisions = msgspec.convert(batch.rows.get("throttle_decisions", []), list[_Decision])
        with self._lock:
            for row in rows:
                known = self._rows.get(row.principal)
                if known is None or known.as_of <= row.as_of:
                    self._rows[row.principal] = row
            self._decisions.update(decision.action for decision in decisions)
            self._record(decisions)
            self._quarantined += len(batch.rows.get("quarantined_events", []))
            self._commit_seconds = batch.commit_seconds
            self._forget()

    def restore(self, decisions: Iterable[Mapping[str, object]]) -> None:
        """Record decisions from before the stream's start, without adding them to counters."""
        with self._lock:
            self._record(msgspec.convert(list(decisions), list[_Decision]))
            self._forget()

    def totals(self) -> Totals:
        """Return the numbers of active and throttled principals."""
        with self._lock:
            self._forget()
            return Totals(len(self._rows), len(self._throttles))

    def report(self, progress: Progress) -> None:
        """Record a query's progress."""
        with self._lock:
            self._progress[progress.query] = progress
            self._records[progress.query] += progress.records
            self._batch_times.labels(progress.query).observe(progress.batch_seconds)
            self._heard_ms[progress.query] = self._clock_ms()

    def idle(self, query: str) -> None:
        """Record that a query runs but has nothing to read."""
        with self._lock:
            self._heard_ms[query] = self._clock_ms()
            known = self._progress.get(query)
            if known is not None:
                self._progress[query] = replace(known, records_behind=0)

    def unready(self) -> str:
        """Return why the stream is not ready, or an empty text."""
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
            labelled = self._labelled(now_ms)
            rest = [*self._totals(list(self._rows.values())), *self._health()]
        yield from _principal_families(labelled)
        yield from rest
        yield from self.plugins.collect()
        yield from self.holds.collect()

    def _record(self, decisions: Iterable[_Decision]) -> None:
        for decision in sorted(decisions, key=lambda each: (each.decided_at, each.action)):
            self._throttles[decision.principal] = decision

    def _forget(self) -> None:
        now_ms = self._clock_ms()
        oldest_ms = now_ms - self._config.window_ms
        self._rows = {key: row for key, row in self._rows.items() if row.as_of > oldest_ms}
        self._throttles = {
            key: decision
            for key, decision in self._throttles.items()
            if decision.action == "THROTTLE" and decision.throttled_until > now_ms
        }

    def _labelled(self, now_ms: int) -> dict[str, _Values]:
        series: dict[str, _Values] = {}
        for principal in self._rows.keys() | self._throttles.keys():
            label = label_of(principal)
            series[label] = _added(series.get(label), self._values(principal, now_ms))
        unknown = label_of(UNKNOWN_PRINCIPAL)
        ranked = sorted(
            series,
            key=lambda label: (
                label != unknown,
                *(-(series[label][name] or 0) for name in (_THROTTLES, _NEW, _ACTIVE)),
                label,
            ),
        )
        shown = {label: series[label] for label in ranked[: self._top]}
        for label in ranked[self._top :]:
            shown[OTHER] = _added(shown.get(OTHER), series[label])
        return shown

    def _values(self, principal: str, now_ms: int) -> _Values:
        """Return a principal's values as of now. Tokens are extrapolated, because only events cause rows."""
        values = dict.fromkeys(_OF_A_USER) | dict.fromkeys((_RATE, _THROTTLE_S, _NEW, _ACTIVE), 0)
        values[_THROTTLES] = int(principal in self._throttles)
        row = self._rows.get(principal)
        if row is None:
            return values
        values |= {_RATE: row.rate or 0.0, _TOKENS: row.tokens, _AVERAGE_MS: row.throttle_time_avg_ms}
        values |= {_NEW: row.new_pids_window, _QUOTA: row.quota, _BURST: row.burst, _ACTIVE: row.active_pids}
        if row.tokens is not None and row.quota:
            refilled = row.tokens + row.quota * max(0, now_ms - row.as_of) / self._config.window_ms
            tokens = min(row.burst or row.quota, refilled)
            values[_TOKENS] = tokens
            values[_THROTTLE_S] = max(0.0, -tokens) / row.quota * self._config.window_ms / 1000
        return values

    def _totals(self, rows: Sequence[_Row]) -> Iterator[Metric]:
        for name, text, condition in _OF_ALL_PRINCIPALS:
            yield GaugeMetricFamily(name, text, sum(1 for row in rows if condition(row)))
        text = "Bytes of the ledgers of all principals with a row in the last quota window."
        yield GaugeMetricFamily("pid_quota_ledger_bytes", text, sum(row.state_bytes for row in rows))
        decisions = CounterMetricFamily("pid_quota_decisions", "Throttle decisions, by action.", labels=["action"])
        yield _filled(decisions, self._decisions)
        text = "Records of the topic of events that are not valid events."
        yield CounterMetricFamily("pid_quota_quarantined_records", text, self._quarantined)
        text = "Seconds that the stream's last micro-batch took to write the tables."
        yield GaugeMetricFamily("pid_quota_commit_seconds", text, self._commit_seconds)

    def _health(self) -> Iterator[Metric]:
        records = CounterMetricFamily("pid_quota_stream_records", "Records that a query has read.", labels=["query"])
        yield _filled(records, self._records)
        for name, text, attribute in _OF_A_QUERY:
            values = {query: getattr(progress, attribute) for query, progress in self._progress.items()}
            yield _filled(GaugeMetricFamily(name, text, labels=["query"]), values)
        for family in self._batch_times.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
        text = "Unix time when a query last ended a micro-batch or found nothing to read."
        heard = GaugeMetricFamily("pid_quota_stream_heard_timestamp_seconds", text, labels=["query"])
        yield _filled(heard, {query: ms / 1000 for query, ms in self._heard_ms.items()})


def label_of(principal: str) -> str:
    r"""Return a principal's label: a user's bare name, as in Kafka's MBeans, else the whole principal.

    Names are truncated, and invalid Unicode is replaced.

    Examples:
        >>> label_of("User:alice"), label_of("Role:a"), label_of("unknown"), label_of("User:\ud800")
        ('alice', 'Role:a', 'unknown', '?')
    """
    kind, _, name = principal.partition(":")
    label = name if kind == "User" and name else principal
    return label.encode(errors="replace").decode()[:MAX_LABEL_CHARS]


def _principal_families(series: Mapping[str, _Values]) -> Iterator[Metric]:
    for name, (_, text) in _OF_A_USER.items():
        family = GaugeMetricFamily(name, text, labels=["user"])
        for label, values in series.items():
            if (value := values[name]) is not None:
                family.add_metric([label], value)
        yield family


def _added(one: _Values | None, other: _Values) -> _Values:
    return other if one is None else {name: add(one[name], other[name]) for name, (add, _) in _OF_A_USER.items()}


def _filled(family: _Family, values: Mapping[str, float]) -> _Family:
    for label, value in values.items():
        family.add_metric([label], value)
    return family

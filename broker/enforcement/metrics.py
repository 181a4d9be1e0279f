"""The enforcer's Prometheus metrics."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker.enforcement.model import Lease
from broker.enforcement.notices import Notice, NoticeAction

SILENT_S = 60
"""A ready enforcer has reconciled within this time. The alert `PidQuotaEnforcerSilent` has the same limit."""


class EnforcerMetrics(Collector):
    """Counts of notices, and the last reconciliation. All methods are thread-safe."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        # Start at 0, because Prometheus sees no increase in a counter that appears with 1.
        self._actions: Counter[str] = Counter(dict.fromkeys(get_args(NoticeAction), 0))
        self._leases: Counter[str] = Counter()
        self._is_active = False
        self._reconciled_ms: int | None = None
        self._decision_ms: int | None = None

    def observe(self, notice: Notice) -> None:
        """Count a notice."""
        with self._lock:
            self._actions[notice.action] += 1
            if notice.action in ("throttled", "extended"):
                self._decision_ms = notice.at_ms

    def reconciled(self, leases: Collection[Lease], *, is_active: bool) -> None:
        """Record a successful reconciliation."""
        with self._lock:
            self._leases = Counter(lease.state for lease in leases)
            self._is_active, self._reconciled_ms = is_active, self._clock_ms()

    def unready(self) -> str:
        """Return why the enforcer is not ready, or an empty text."""
        with self._lock:
            is_active, reconciled_ms = self._is_active, self._reconciled_ms
        if reconciled_ms is None:
            return "no reconciliation has finished yet"
        silent_s = (self._clock_ms() - reconciled_ms) / 1000
        if silent_s > SILENT_S:
            return f"no reconciliation has finished for {silent_s:.0f} s: tables or Kafka do not answer"
        return "" if is_active else "waits for the lock, which another enforcer holds"

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        with self._lock:
            actions, leases, now_ms = dict(self._actions), dict(self._leases), self._clock_ms()
            is_active, reconciled_ms, decision_ms = self._is_active, self._reconciled_ms, self._decision_ms
        text = "Notices of the enforcer, by action."
        counter = CounterMetricFamily("pid_quota_enforcer_actions", text, labels=["action"])
        for action, count in actions.items():
            counter.add_metric([action], count)
        yield counter
        text = "Leases that are open, by state."
        open_leases = GaugeMetricFamily("pid_quota_enforcer_leases", text, labels=["state"])
        for state in ("applying", "in_force", "restoring"):
            open_leases.add_metric([state], leases.get(state, 0))
        yield open_leases
        text = "1 if the enforcer holds the lock, 0 if it waits."
        yield GaugeMetricFamily("pid_quota_enforcer_active", text, int(is_active))
        for name, text, at_ms in (
            (
                "turn",
                "Seconds since the enforcer last read the tables and changed the brokers to the end.",
                reconciled_ms,
            ),
            ("decision", "Seconds since the enforcer last carried out a decision.", decision_ms),
        ):
            if at_ms is not None:
                yield GaugeMetricFamily(f"pid_quota_enforcer_{name}_age_seconds", text, (now_ms - at_ms) / 1000)

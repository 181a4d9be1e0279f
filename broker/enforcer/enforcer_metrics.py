"""The enforcer's Prometheus metrics: open leases, and actions by kind."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker.enforcer.notices import Notice, NoticeKind
from broker.leases.lease_rules import Lease


class EnforcerMetrics(Collector):
    """Collects notices and reconciliations. Thread-safe.

    Args:
        clock_ms: Wall clock, in milliseconds since the epoch.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        # Start at 0: Prometheus sees no increase in a counter that appears with 1.
        self._actions: Counter[str] = Counter(dict.fromkeys(get_args(NoticeKind), 0))
        self._leases: Counter[str] = Counter()
        self._is_active = False
        self._reconciled_ms: int | None = None
        self._decision_ms: int | None = None

    def observe(self, notice: Notice) -> None:
        """Count a notice."""
        with self._lock:
            self._actions[notice.kind] += 1
            if notice.kind in ("throttled", "extended"):
                self._decision_ms = notice.at_ms

    def reconciled(self, leases: Collection[Lease], *, is_active: bool) -> None:
        """Record a reconciliation that succeeded.

        Args:
            leases: Open ones.
            is_active: Whether we hold the lock.
        """
        with self._lock:
            self._leases = Counter(lease.state for lease in leases)
            self._is_active, self._reconciled_ms = is_active, self._clock_ms()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as of now."""
        with self._lock:
            actions, leases, now_ms = dict(self._actions), dict(self._leases), self._clock_ms()
            is_active, reconciled_ms, decision_ms = self._is_active, self._reconciled_ms, self._decision_ms
        counter = CounterMetricFamily("pid_quota_enforcer_actions", "Notices, by action.", labels=["action"])
        for action, count in actions.items():
            counter.add_metric([action], count)
        yield counter
        open_leases = GaugeMetricFamily("pid_quota_enforcer_leases", "Open leases, by state.", labels=["state"])
        for state in ("applying", "in_force", "restoring"):
            open_leases.add_metric([state], leases.get(state, 0))
        yield open_leases
        yield GaugeMetricFamily("pid_quota_enforcer_active", "This enforcer holds the lock.", int(is_active))
        for name, text, at_ms in (
            ("turn", "Time since the last successful reconciliation.", reconciled_ms),
            ("decision", "Time since a decision was last enforced.", decision_ms),
        ):
            if at_ms is not None:
                yield GaugeMetricFamily(f"pid_quota_enforcer_{name}_age_seconds", text, (now_ms - at_ms) / 1000)

"""Prometheus metrics of holds."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker.enforcement.enforcer import Standing

_GAUGES: tuple[tuple[str, str, Callable[[Standing], float]], ...] = (
    ("pid_quota_enforcing", "1 with --enforce, else 0.", lambda found: int(found.is_enforcing)),
    ("pid_quota_holds_in_force", "Users whom the stream holds.", lambda found: found.held),
    ("pid_quota_would_hold", "Users whom the stream would hold with --enforce.", lambda found: found.would_hold),
    (
        "pid_quota_hold_confirmations_missing",
        "Brokers that do not confirm a hold after 5 s, added up over all held users.",
        lambda found: found.confirmations_missing,
    ),
    (
        "pid_quota_holds_planned_timestamp_seconds",
        "Unix time when the stream last compared decisions with holds, which it does once a second.",
        lambda found: found.planned_s,
    ),
    (
        "pid_quota_other_writer",
        "1 if another live stream writes holds on the cluster, else 0.",
        lambda found: int(found.has_other_writer),
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[Standing], float]], ...] = (
    (
        "pid_quota_held_requests",
        "Requests for a new producer id that brokers refused under the holds in force.",
        lambda found: found.held_requests,
    ),
    (
        "pid_quota_let_in",
        "Requests for a new producer id that brokers let through under the holds in force.",
        lambda found: found.let_in,
    ),
)


class HoldMetrics(Collector):
    """A collector of what the enforcing thread says."""

    def __init__(self) -> None:
        self.standing: Callable[[], Standing] = Standing

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        found = self.standing()
        for name, text, value in _GAUGES:
            yield GaugeMetricFamily(name, text, value(found))
        for name, text, value in _COUNTERS:
            yield CounterMetricFamily(name, text, value(found))
        left_out = GaugeMetricFamily(
            "pid_quota_hold_left_out", "Decisions in force that hold nobody, by reason.", labels=["reason"]
        )
        for reason, count in found.left_out.items():
            left_out.add_metric([reason], count)
        yield left_out

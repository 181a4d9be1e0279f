"""Prometheus metrics of the brokers' plugins, from the states that they report."""

import threading
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from wire.plugin_reports import PluginState

_Family = GaugeMetricFamily | CounterMetricFamily
_OF_A_PLUGIN: tuple[tuple[str, str, type[_Family], Callable[[PluginState], float]], ...] = (
    (
        "pid_quota_plugin_report_timestamp_seconds",
        "Unix time of the newest report of a broker's plugin, which reports every 10 s.",
        GaugeMetricFamily,
        lambda state: state.timestamp_ms / 1000,
    ),
    (
        "pid_quota_plugin_events",
        "Produce events that a broker's plugin has delivered since the plugin started.",
        CounterMetricFamily,
        lambda state: state.events,
    ),
    (
        "pid_quota_plugin_dropped_events",
        "Produce events that a broker's plugin has lost since the plugin started.",
        CounterMetricFamily,
        lambda state: state.dropped_events,
    ),
    (
        "pid_quota_plugin_waiting_pids",
        "Producer ids of a broker whose event is not delivered yet.",
        GaugeMetricFamily,
        lambda state: state.waiting_pids,
    ),
    (
        "pid_quota_plugin_problem",
        "1 if a broker's plugin sees or delivers nothing, 0 if it does.",
        GaugeMetricFamily,
        lambda state: int(bool(state.problem)),
    ),
)
"""Name, help text, kind and value of each metric."""


class PluginMetrics(Collector):
    """A collector of the newest state of each broker's plugin. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[int, PluginState] = {}
        self._cluster: set[int] = set()

    def observe(self, states: Sequence[PluginState]) -> None:
        """Record states in the order of their reports."""
        with self._lock:
            for state in states:
                self._newest[state.broker_id] = state
                # A plugin that does not see the cluster names no broker.
                self._cluster = set(state.cluster_brokers) or self._cluster

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        with self._lock:
            newest, cluster = [self._newest[each] for each in sorted(self._newest)], sorted(self._cluster)
        for name, text, kind, value in _OF_A_PLUGIN:
            family = kind(name, text, labels=["broker"])
            for state in newest:
                family.add_metric([str(state.broker_id)], value(state))
            yield family
        brokers = GaugeMetricFamily("pid_quota_cluster_broker", "1 for each broker of the cluster.", labels=["broker"])
        for broker_id in cluster:
            brokers.add_metric([str(broker_id)], 1)
        yield brokers

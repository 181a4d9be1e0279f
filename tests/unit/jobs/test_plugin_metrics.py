"""Prometheus metrics of the brokers' plugins."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from jobs.stream.plugin_metrics import PluginMetrics
from jobs.stream.stream_metrics import StreamMetrics
from quota.config import QuotaConfig
from tests.kits.plugin_kit import NOON_MS, state_report


def value(metrics: PluginMetrics | StreamMetrics, name: str, broker: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(metrics)
    return registry.get_sample_value(name, {"broker": broker})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pid_quota_plugin_report_timestamp_seconds", NOON_MS / 1000),
        ("pid_quota_plugin_events_total", 7),
        ("pid_quota_plugin_dropped_events_total", 2),
        ("pid_quota_plugin_waiting_pids", 3),
        ("pid_quota_plugin_problem", 1),
        ("pid_quota_cluster_broker", 1),
    ],
)
def test_the_newest_state_of_each_broker_is_exported(name: str, expected: float) -> None:
    metrics = StreamMetrics(QuotaConfig())
    newest: dict[str, Any] = {
        "events": 7,
        "dropped_events": 2,
        "waiting_pids": 3,
        "problem": "no right",
        "cluster_brokers": [1, 2],
    }
    metrics.plugins.observe([state_report(events=1), state_report(**newest), state_report(broker_id=2)])

    assert value(metrics, name, "1") == expected


def test_a_broker_without_a_report_is_known_only_as_one_of_the_cluster() -> None:
    metrics = PluginMetrics()
    metrics.observe([state_report(cluster_brokers=[1, 2, 3])])
    metrics.observe([state_report(cluster_brokers=[1, 2])])
    metrics.observe([state_report(cluster_brokers=[])])

    assert value(metrics, "pid_quota_plugin_problem", "2") is None
    assert [value(metrics, "pid_quota_cluster_broker", broker) for broker in "123"] == [1, 1, None]

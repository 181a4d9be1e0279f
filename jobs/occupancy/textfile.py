"""Writes a census's metrics for node_exporter's textfile collector.

A census is occasional, so there is no server to scrape.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker.occupancy.census_report import CensusReport
from jobs.errors import MetricsError


class OccupancyMetrics(Collector):
    """Metrics of a census."""

    def __init__(self, seconds_to_limit: Mapping[int, float], held_pids: Mapping[int, int]) -> None:
        """Take the values.

        Args:
            seconds_to_limit: Seconds until each broker reaches the limit; 0 if it has.
            held_pids: Producer ids that each broker holds.
        """
        self._seconds_to_limit, self._held_pids = seconds_to_limit, held_pids

    @classmethod
    def of(cls, report: CensusReport, now: datetime) -> "OccupancyMetrics":
        """Return the metrics of a report; a broker that will not reach its limit has no seconds to it."""
        reached = {each.broker_id: each.worst.limit_reached_at for each in report.brokers}
        left = {broker_id: at - now for broker_id, at in reached.items() if at is not None}
        seconds = {broker_id: max(0.0, each.total_seconds()) for broker_id, each in left.items()}
        return cls(seconds, {each.broker_id: each.held_pids for each in report.brokers})

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        for name, text, values in (
            (
                "seconds_to_limit",
                "Seconds until a broker holds more producer ids than it may.",
                self._seconds_to_limit,
            ),
            ("held_pids", "Producer ids that a broker holds, one for each partition.", self._held_pids),
        ):
            family = GaugeMetricFamily(f"pid_quota_occupancy_{name}", text, labels=["broker"])
            for broker_id, value in values.items():
                family.add_metric([str(broker_id)], value)
            yield family


def write_metrics_file(file: Path, report: CensusReport, now: datetime) -> None:
    """Write the file atomically.

    Raises:
        MetricsError: If it can't be written.
    """
    registry = CollectorRegistry()
    registry.register(OccupancyMetrics.of(report, now))
    try:
        write_to_textfile(str(file), registry)
    except OSError as error:
        msg = f"can't write {file} ({error.strerror}): name a file in node_exporter's textfile folder"
        raise MetricsError(msg) from error

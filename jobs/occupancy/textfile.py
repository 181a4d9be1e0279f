"""What `pid-quota occupancy` leaves for Prometheus: a file for node_exporter's textfile collector.

A census takes a while and is taken now and then, so there is no server to ask.
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
    """What one census found."""

    def __init__(self, seconds_to_limit: Mapping[int, float], held_pids: Mapping[int, int]) -> None:
        """Take what was found.

        Args:
            seconds_to_limit: By broker: when it will hold as many producer ids as it must not; 0 if it does now.
            held_pids: By broker: what it holds.
        """
        self._seconds_to_limit, self._held_pids = seconds_to_limit, held_pids

    @classmethod
    def of(cls, report: CensusReport, now: datetime) -> "OccupancyMetrics":
        """Return those of a report; a broker that will not reach its limit has no time to it."""
        reached = {each.broker_id: each.worst.limit_reached_at for each in report.brokers}
        left = {broker_id: at - now for broker_id, at in reached.items() if at is not None}
        seconds = {broker_id: max(0.0, each.total_seconds()) for broker_id, each in left.items()}
        return cls(seconds, {each.broker_id: each.held_pids for each in report.brokers})

    def collect(self) -> Iterator[Metric]:
        """Tell it."""
        for name, text, values in (
            ("seconds_to_limit", "Until the broker holds as many producer ids as it must not.", self._seconds_to_limit),
            ("held_pids", "Producer ids that the broker holds, one for each partition.", self._held_pids),
        ):
            family = GaugeMetricFamily(f"pid_quota_occupancy_{name}", text, labels=["broker"])
            for broker_id, value in values.items():
                family.add_metric([str(broker_id)], value)
            yield family


def write_metrics_file(file: Path, report: CensusReport, now: datetime) -> None:
    """Write the file, at once as a whole.

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

"""Writes a census's metrics for node_exporter's textfile collector.

A census is occasional, so there is no server to scrape.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from broker.occupancy.census_report import CensusReport
from jobs.errors import JobError

_METRICS = {
    "seconds_to_limit": "Seconds until a broker holds more producer ids than it may.",
    "held_pids": "Producer ids that a broker holds, one for each partition.",
}


def occupancy_registry(seconds_to_limit: Mapping[int, float], held_pids: Mapping[int, int]) -> CollectorRegistry:
    """Return the metrics of a census, by broker."""
    registry = CollectorRegistry()
    for (name, text), values in zip(_METRICS.items(), (seconds_to_limit, held_pids), strict=True):
        gauge = Gauge(f"pid_quota_occupancy_{name}", text, ["broker"], registry=registry)
        for broker_id, value in values.items():
            gauge.labels(broker_id).set(value)
    return registry


def write_metrics_file(file: Path, report: CensusReport, now: datetime) -> None:
    """Write the file atomically; a broker that will not reach its limit has no seconds to it."""
    reached = {each.broker_id: each.worst.limit_reached_at for each in report.brokers}
    seconds = {number: max(0.0, (at - now).total_seconds()) for number, at in reached.items() if at is not None}
    registry = occupancy_registry(seconds, {each.broker_id: each.held_pids for each in report.brokers})
    try:
        write_to_textfile(str(file), registry)
    except OSError as error:
        msg = f"can't write {file} ({error.strerror}): name a file in node_exporter's textfile folder"
        raise JobError(msg) from error

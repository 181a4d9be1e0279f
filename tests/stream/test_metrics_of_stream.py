"""The metrics of a running stream: what its batches say, and what Spark says of them."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from jobs.stream.stream_metrics import StreamMetrics
from quota.config import QuotaConfig
from streaming.listener import ProgressListener
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import wait_until
from tests.kits.stream_kit import START_MS, Stream, event

NOW_MS = START_MS + 20_000


class Watched:
    """A stream, and what a scrape of its metrics finds."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.metrics = StreamMetrics(QuotaConfig(), clock_ms=lambda: NOW_MS)
        self._registry = CollectorRegistry()
        self._registry.register(self.metrics)
        stream.observer = self.metrics.observe
        create_missing(stream.tables)

    def wait_for_batch(self, batch_id: int) -> None:
        """Wait until Spark has told of a batch: it does so a moment later."""
        wait_until(lambda: self.value("pid_quota_stream_batch_id", query="pid-quota") == batch_id, f"batch {batch_id}")

    def value(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(name, labels)


@pytest.fixture
def watched(stream: Stream, spark: SparkSession) -> Iterator[Watched]:
    watched = Watched(stream)
    listener = ProgressListener(watched.metrics.report, watched.metrics.idle)
    spark.streams.addListener(listener)
    yield watched
    spark.streams.removeListener(listener)


def test_a_flood_shows_in_the_metrics_of_the_running_stream(watched: Watched) -> None:
    stream = watched.stream
    stream.quota(10)

    stream.batch(*[event(pid) for pid in range(50)], event(900, "User:alice"), b"no event")
    stream.batch(event(901, "User:alice", at_ms=1000))

    stream.run()
    watched.wait_for_batch(1)

    assert watched.value("pid_quota_window_pids", user="mallory") == 50
    assert watched.value("pid_quota_throttles_in_force", user="mallory") == 1
    # Ten tokens below zero, and 20 s of 10 an hour.
    assert watched.value("kafka_server_producerids_tokens", user="mallory") == pytest.approx(-10 + 20 / 360)
    assert watched.value("pid_quota_throttle_time_seconds", user="mallory") == pytest.approx(3580)
    assert watched.value("kafka_server_producerids_tokens", user="alice") == pytest.approx(8 + 20 / 360, abs=0.01)
    assert watched.value("pid_quota_decisions_total", action="THROTTLE") == 3
    assert watched.value("pid_quota_quarantined_records_total") == 1
    assert (watched.value("pid_quota_commit_seconds") or 0) > 0
    # The operator read each record once: who looks on costs no second run.
    assert watched.value("pid_quota_stream_records_total", query="pid-quota") == 53
    # Both principals share one of the 24 states; the key of bad records never has one.
    assert watched.value("pid_quota_state_rows", query="pid-quota") == 1
    assert (watched.value("pid_quota_state_bytes", query="pid-quota") or 0) > 0
    assert (watched.value("pid_quota_stream_batch_seconds", query="pid-quota") or 0) > 0

"""Two drivers on one checkpoint, as on two clusters, where a lock of the file system does not hold."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from streaming.errors import CheckpointError
from streaming.failures import as_stream_error
from tests.kits.broker_kit import new_topic, wait_until
from tests.kits.fault_kit import Stream, bad_offsets, drive, running_driver, send, traffic

PART = 60


@pytest.mark.slow
def test_one_of_two_drivers_ends_with_one_line_and_nothing_is_lost_or_doubled(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    topic = new_topic(broker, "produce-events", 2)
    shared = Stream(tmp_path / "shared", broker.admin_servers, topic, batch=PART).prepared()
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    begins = itertools.count(0, PART)

    def after_more_traffic(condition: Callable[[], bool]) -> bool:
        send(broker, topic, traffic(PART, first=next(begins)))
        return condition()

    # The drivers take no lock: `pid-quota stream` takes it before it starts one.
    with (
        running_driver(shared, logs[0], trigger="200 milliseconds") as one,
        running_driver(shared, logs[1], trigger="200 milliseconds") as two,
    ):
        drivers = (one, two)
        wait_until(lambda: after_more_traffic(lambda: any(driver.poll() is not None for driver in drivers)), "one ends")
        ended = [log for driver, log in zip(drivers, logs, strict=True) if driver.poll() is not None]
    assert drive(shared, tmp_path / "rest.log") == 0

    error = as_stream_error(Exception(ended[0].read_text(encoding="utf-8")), str(shared.checkpoint))
    assert isinstance(error, CheckpointError), ended[0].read_text(encoding="utf-8")[-3000:]
    assert "\n" not in str(error)
    shared.assert_as_undisturbed(spark)
    bad = bad_offsets(shared)
    assert len(bad) == len(set(bad)) > 0

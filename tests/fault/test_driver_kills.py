"""Kill -9 of the driver, at each step of the numbered commit and at random."""

import secrets
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from tables.schema.specs import SinkName
from tests.kits.broker_kit import new_topic, wait_until
from tests.kits.fault_kit import SINK, Stream, committed, drive, running_driver, send, traffic
from tests.kits.process_kit import kill_group, repeating

STEPS = ("throttle_decisions", "producer_id_metrics", "quarantined_events", "end")


@pytest.mark.parametrize(
    ("sink", "steps"),
    [
        ("deltalake", STEPS[1:2]),
        pytest.param("deltalake", STEPS, marks=pytest.mark.slow),
        pytest.param("delta-spark", STEPS, marks=pytest.mark.slow),
    ],
)
def test_killed_at_each_step_of_the_commit_it_writes_the_rows_and_keeps_the_state_of_an_undisturbed_run(
    spark: SparkSession,
    stream: Stream,
    undisturbed: Stream,
    tmp_path: Path,
    sink: SinkName,
    steps: Sequence[str],
) -> None:
    stream = replace(stream, sink=sink).prepared()
    for batch_id, step in enumerate(steps):
        assert drive(stream, tmp_path / "log", die=step, die_in=batch_id) == -signal.SIGKILL
        assert committed(stream) == batch_id, f"killed at step {step}"

    assert drive(stream, tmp_path / "log") == 0

    assert committed(stream) == len(STEPS) + 1
    assert all(undisturbed.everything().values())
    stream.assert_equal(spark, undisturbed)


def is_past(stream: Stream, batches: int) -> bool:
    return committed(stream) > batches


@pytest.mark.slow
@pytest.mark.parametrize(("sink", "kills"), [(SINK, 3), (SINK, 20), ("delta-spark", 10)])
def test_killed_at_random_under_load_it_means_the_same_as_an_undisturbed_run(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, sink: SinkName | None, kills: int
) -> None:
    topic, chance = new_topic(broker, "produce-events", 2), secrets.SystemRandom()
    stream = Stream(tmp_path / "killed", broker.admin_servers, topic, 5000, sink).prepared()
    begins = count(0, 200)

    with repeating(lambda: send(broker, topic, traffic(200, next(begins))), pause_s=0.2):
        for _ in range(kills):
            with running_driver(stream, tmp_path / "log", trigger="500 milliseconds") as process:
                wait_until(partial(is_past, stream, committed(stream)), "a batch", process)
                # Not to wait for anything: the moment of the kill is what is random.
                time.sleep(chance.uniform(0, 3))
                kill_group(process)
    assert drive(replace(stream, batch=50_000), tmp_path / "log") == 0

    stream.assert_as_undisturbed(spark)

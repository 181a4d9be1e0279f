"""A broker that is away for minutes: a supervised stream says so, and goes on as if nothing had been."""

import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from tests.kits.fault_kit import CONFIG, Stream, send, topic_of, traffic
from tests.kits.stream_command_kit import LIMIT_S, StreamCommand

pytestmark = pytest.mark.slow

AWAY_S = 180.0
BACK_OFF_S = 5.0
"""What a supervisor waits between two starts."""
TUNED = {"metrics_interval_seconds": CONFIG.metrics_interval_seconds}


def run_until(stream: StreamCommand, moment_s: float) -> list[tuple[int, str]]:
    """Run a stream until a moment, again whenever it ends; returns how each run ended."""
    ends = []
    while time.monotonic() < moment_s:
        with stream.running() as process:
            while process.poll() is None and time.monotonic() < moment_s:
                time.sleep(0.2)
            if process.returncode is not None:
                ends.append((process.returncode, stream.said()[-1]))
                time.sleep(BACK_OFF_S)
    return ends


def test_a_broker_that_is_away_for_three_minutes_costs_no_row_and_doubles_none(
    spark: SparkSession, jars: Path, tmp_path: Path
) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as mortal, ExitStack() as stack:
        topic = topic_of(mortal, 1200)
        stream = Stream(tmp_path / "stream", mortal.admin_servers, topic).prepared()
        command = StreamCommand(stream.root, mortal.admin_servers, topic, tuned=TUNED)
        process = stack.enter_context(command.running())
        command.wait_for_batches(1, process)

        mortal.kill()
        assert process.wait(LIMIT_S) == 1
        said = command.said()
        assert "the brokers did not answer: start it again once they do" in said[-1]
        ends = run_until(command, time.monotonic() + AWAY_S)
        print(f"started {len(ends)} times while the broker was away; the last line: {ends[-1][1]}")
        assert {code for code, _ in ends} == {1}
        assert all(re.search("no Kafka broker answers at|did not answer", line) for _, line in ends), ends
        mortal.start()
        send(mortal, topic, traffic(1200, first=1200))

        code, said = command.run()
        assert code == 0, said
        stream.assert_as_undisturbed(spark)

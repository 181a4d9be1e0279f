"""Promise (docs/failures.md): a stream that ends says what, where and what now in its last line, without traces."""

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable

from broker.local.local_broker import LocalBroker
from tests.kits.fault_kit import send, topic_of, traffic
from tests.kits.stream_command_kit import LIMIT_S, StreamCommand, processes_below

pytestmark = pytest.mark.slow

TRACE = re.compile(r"^\s+at |^Traceback|^\s+File |^Caused by|^\s+\.\.\. \d+ more")


@pytest.fixture
def stream(broker: LocalBroker, tmp_path: Path) -> StreamCommand:
    topic = topic_of(broker, 100)
    return StreamCommand.on(broker, topic, tmp_path)


def last_line(stream: StreamCommand, process: subprocess.Popen[bytes]) -> str:
    assert process.wait(LIMIT_S) == 1
    said = stream.said()
    assert [line for line in said if TRACE.search(line)] == []
    assert [line for line in said if line.startswith("error:")] == said[-1:]
    return said[-1]


def kill_workers(pid: int) -> None:
    for child, command in processes_below(pid).items():
        # The JVM's command names the workers' module, too.
        if "worker_daemon" in command and "java" not in command.split(" ")[0]:
            # It may have ended meanwhile.
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("moment", range(5))
def test_a_jvm_that_is_killed_at_any_moment(broker: LocalBroker, stream: StreamCommand, moment: int) -> None:
    with stream.running("--trigger", "0 seconds") as process:
        stream.wait_for_batches(1, process)
        # Given batches in progress: Python's threads are in native code.
        for part in range(5):
            send(broker, stream.topic, traffic(200, first=200 * part + 100))
            time.sleep(moment / 10)
        (jvm,) = [pid for pid, command in processes_below(process.pid).items() if "java" in command.split(" ")[0]]
        os.kill(jvm, signal.SIGKILL)
        said = last_line(stream, process)
    assert "its JVM is gone" in said
    assert "start it again" in said


def test_a_worker_that_is_killed_in_the_middle_of_a_batch(broker: LocalBroker, stream: StreamCommand) -> None:
    with stream.running("--trigger", "1 second") as process:
        stream.wait_for_batches(1, process)
        give_up_at, first = time.monotonic() + LIMIT_S, 100
        while process.poll() is None:
            assert time.monotonic() < give_up_at
            send(broker, stream.topic, traffic(2000, first=first))
            first += 2000
            for _ in range(20):
                kill_workers(process.pid)
                time.sleep(0.05)
        said = last_line(stream, process)
    assert "a Spark worker was killed" in said


def test_a_second_stream_on_a_checkpoint_and_two_that_start_at_once(stream: StreamCommand, tmp_path: Path) -> None:
    second = StreamCommand(tmp_path / "second", stream.servers, stream.topic, stream.arguments)
    second.root.mkdir()
    (second.root / "tables").symlink_to(stream.tables)
    (second.root / "checkpoint").symlink_to(stream.checkpoint)
    stream.tables.mkdir()
    stream.checkpoint.mkdir()
    with ExitStack() as stack:
        one = stack.enter_context(stream.running("--trigger", "1 second"))
        other = stack.enter_context(second.running("--trigger", "1 second"))
        while one.poll() is None and other.poll() is None:
            time.sleep(0.1)
        ended, by, runs_on, its = (
            (one, stream, other, second) if one.poll() is not None else (other, second, one, stream)
        )
        assert "another stream runs on checkpoint" in last_line(by, ended)
        its.wait_for_batches(1, runs_on)
    with stream.running("--trigger", "1 second"):
        pass


def test_of_two_live_streams_on_copies_of_a_checkpoint_one_ends_and_no_row_is_lost(
    broker: LocalBroker, stream: StreamCommand, tmp_path: Path
) -> None:
    assert stream.run()[0] == 0
    copy = StreamCommand(tmp_path / "copy", stream.servers, stream.topic, stream.arguments)
    shutil.copytree(stream.checkpoint, copy.checkpoint)
    copy.tables.symlink_to(stream.tables)
    # When both run, and the topic grows.
    sent, give_up_at = 100, time.monotonic() + LIMIT_S
    with stream.running("--trigger", "1 second") as one, copy.running("--trigger", "1 second") as other:
        while one.poll() is None and other.poll() is None:
            assert time.monotonic() < give_up_at
            send(broker, stream.topic, traffic(97, first=sent))
            sent += 97
            time.sleep(0.3)
        ended, by, its = (one, stream, copy) if one.poll() is not None else (other, copy, stream)
        assert "another stream writes with this id" in last_line(by, ended)
    # Then the other one goes on, with every row once.
    code, said = its.run()
    assert code == 0, said
    rows = DeltaTable(stream.tables / "quarantined_events").to_pyarrow_table(columns=["value"])
    values = sorted(rows["value"].to_pylist())
    assert values == sorted(value for _, value in traffic(sent) if value.startswith(b"not an event"))


def test_a_broker_that_is_gone_is_said_now_and_then_and_ends_idle_streams(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        topic = topic_of(broker, 100)
        stream = StreamCommand.on(broker, topic, tmp_path)
        with stream.running("--trigger", "1 second") as process:
            stream.wait_for_batches(1, process)
            broker.stop()
            begun = time.monotonic()
            said = last_line(stream, process)
            seconds = time.monotonic() - begun
    assert "the brokers did not answer" in said
    warnings = [line for line in stream.said() if "NetworkClient" in line]
    # Of each half minute one.
    assert 1 <= len(warnings) <= seconds / 30 + 2
    print(f"ended after {seconds:.0f} s with {len(warnings)} lines")

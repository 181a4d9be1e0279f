"""What `pid-quota run` does when its children are killed or stopped, and when it is killed itself."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.process_kit import left_of
from tests.kits.run_kit import CONSOLE, JVM, STREAM, Run, RunCommand, is_there

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    command = RunCommand(broker.admin_servers, ["--trigger", "1 second"])
    with command.running(tmp_path_factory.mktemp("run") / "data") as running:
        running.wait_until_ready()
        yield running


PARTS = {"stream": STREAM, "console": CONSOLE, "JVM": JVM}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("what", ["SIGKILL", "SIGSTOP"])
def test_a_child_that_is_killed_or_stopped_is_started_again(run: Run, name: str, what: str) -> None:
    words, number = PARTS[name], signal.Signals[what]
    part = "console" if words == CONSOLE else "stream"
    restarts = f'pid_quota_part_restarts_total{{part="{part}"}}'
    # given a part that is ready
    run.wait_until_ready()
    before, pid = run.metric(restarts), run.pid(words)
    group = {pid} | ({run.pid(STREAM), run.pid(JVM)} if part == "stream" else set())

    # when a process of it is killed, or stops
    os.kill(pid, number)
    run.until(lambda: run.metric(restarts) > before, "it is started again")

    # then it works again, and nothing of the old one is left
    run.until(lambda: run.metric(f'pid_quota_part_up{{part="{part}"}}') == 1, "it is up")
    run.wait_until_ready()
    assert run.get("/healthz")[0] == 200
    assert not [each for each in group if is_there(each)]


def test_nothing_is_left_if_the_parent_is_killed(broker: LocalBroker, tmp_path: Path) -> None:
    mark = f"run-{os.getpid()}-{time.monotonic_ns()}"
    command = RunCommand(broker.admin_servers, ["--trigger", "1 second"], {"PID_QUOTA_RUN_MARK": mark})
    with command.running(tmp_path / "data") as run:
        run.wait_until_ready()
        pids = run.pids()
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
    assert left_of(mark) == []
    assert not [pid for pid in pids if is_there(pid)]


def test_a_stopped_parent_does_not_answer_and_goes_on_later(run: Run) -> None:
    os.kill(run.process.pid, signal.SIGSTOP)
    assert run.get("/healthz")[0] == 0
    os.kill(run.process.pid, signal.SIGCONT)
    run.until(lambda: run.get("/healthz")[0] == 200, "it answers again")


def test_brokers_that_are_away_restart_nothing_that_runs(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "broker", jars=jars) as broker:
        broker.wait_for_plugin()
        command = RunCommand(broker.admin_servers, ["--trigger", "1 second"])
        with command.running(tmp_path / "data") as run:
            run.wait_until_ready()
            broker.stop()
            time.sleep(180)
            assert run.get("/healthz")[0] == 200
            assert "hangs" not in run.said()
            broker.start()
            run.wait_until_ready()

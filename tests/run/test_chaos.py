"""`pid-quota run` under trouble of all kinds decides what an undisturbed one decides."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import end_offset
from tests.kits.fault_kit import Stream, send, traffic
from tests.kits.process_kit import repeating
from tests.kits.run_kit import CONSOLE, JVM, STREAM, Run, RunCommand
from tests.kits.stream_command_kit import processes_below
from wire.topics import PRODUCE_EVENTS

pytestmark = pytest.mark.slow

KILLS = 20
SUSPENDED_S = 90
MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture(scope="module")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path_factory.mktemp("broker"), jars=jars) as running:
        running.wait_for_plugin()
        yield running


@pytest.fixture
def disturbed(broker: LocalBroker, tmp_path: Path) -> "Disturbed":
    return Disturbed(broker, tmp_path)


class Disturbed:
    """A `run` that reads events while they are sent."""

    def __init__(self, broker: LocalBroker, folder: Path) -> None:
        self._broker, self._folder = broker, folder
        self._begins = count(0, 200)
        self.config, self.token = folder / "client.properties", folder / "token"
        self.config.write_text("# no login\n")
        self.token.write_text("t" * 40 + "\n")

    @contextmanager
    def running(self, root: Path) -> Iterator[Run]:
        self.stream(root).prepared()
        with self._command().running(root) as run:
            run.wait_until_ready()
            yield run

    @contextmanager
    def sending(self) -> Iterator[None]:
        with repeating(lambda: send(self._broker, PRODUCE_EVENTS, traffic(200, next(self._begins))), pause_s=2):
            yield

    def stream(self, root: Path) -> Stream:
        return Stream(root, self._broker.admin_servers, PRODUCE_EVENTS)

    def assert_as_undisturbed(self, run: Run, root: Path) -> None:
        """Compare with a `run` that reads the topic now, without any trouble."""
        run.wait_until_ready()
        self._await_end(run, root)
        assert run.stop() == 0
        other = self._folder / "undisturbed"
        with self.running(other) as undisturbed:
            self._await_end(undisturbed, other)
            assert undisturbed.stop() == 0
        found, expected = self.stream(root).meaning(), self.stream(other).meaning()
        assert expected["throttle_decisions"]
        assert found["throttle_decisions"] == expected["throttle_decisions"]
        assert found["quarantined_events"] == expected["quarantined_events"]

    def _command(self) -> RunCommand:
        files = ["--command-config", str(self.config), "--console-token-file", str(self.token)]
        return RunCommand(self._broker.admin_servers, ["--trigger", "1 second", *files])

    def _await_end(self, run: Run, root: Path) -> None:
        def is_there() -> bool:
            folder = root / "checkpoint"
            done = max((int(each.name) for each in (folder / "commits").glob("[0-9]*")), default=None)
            if done is None:
                return False
            read = json.loads((folder / "offsets" / str(done)).read_text().splitlines()[-1])
            return bool(sum(read[PRODUCE_EVENTS].values()) >= end_offset(self._broker, PRODUCE_EVENTS))

        run.until(is_there, "all events are read")


def test_children_that_are_killed_twenty_times_each(disturbed: Disturbed, tmp_path: Path) -> None:
    chance = random.Random(61)
    victims = [STREAM, JVM, CONSOLE] * KILLS
    chance.shuffle(victims)
    root = tmp_path / "killed"
    with disturbed.running(root) as run:
        with disturbed.sending():
            for number, words in enumerate(victims):
                run.until(partial(_is_one, run, words), f"{words} runs")
                # Not to wait for anything: the moment of the kill is what is random.
                time.sleep(chance.uniform(0, 6))
                with suppress(ProcessLookupError, ValueError):
                    os.kill(run.pid(words), signal.SIGKILL)
                # A changed file ends the pause before the next start.
                disturbed.config.write_text(f"# {number}\n")
                disturbed.token.write_text(f"{number:040}\n")
        disturbed.assert_as_undisturbed(run, root)


def _is_one(run: Run, words: str) -> bool:
    try:
        return run.pid(words) > 0
    except ValueError:
        return False


def test_a_host_that_is_suspended_restarts_nothing(disturbed: Disturbed, tmp_path: Path) -> None:
    root = tmp_path / "suspended"
    with disturbed.running(root) as run, disturbed.sending():
        before = run.pids()
        everybody = [run.process.pid, *before]
        for pid in everybody:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(SUSPENDED_S)
        for pid in everybody:
            os.kill(pid, signal.SIGCONT)
        run.wait_until_ready()
        time.sleep(30)
        assert "hangs" not in run.said()
        assert {run.pid(words) for words in (STREAM, JVM, CONSOLE)} <= before


def test_a_full_disk_is_told_and_loses_nothing(disturbed: Disturbed, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with _mounted(disk, "64m"):
        root = disk / "full"
        with disturbed.running(root) as run:
            with disturbed.sending():
                ballast = disk / "ballast"
                _fill(ballast)
                run.wait_for("No space left on device")
                time.sleep(20)
                assert run.get("/healthz")[0] == 200
                assert "panicked" not in run.said()
                ballast.unlink()
                disturbed.config.write_text("# there is room again\n")
                run.wait_until_ready()
            disturbed.assert_as_undisturbed(run, root)


@contextmanager
def _mounted(folder: Path, size: str) -> Iterator[None]:
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("a file system can't be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as output:
        while True:
            output.write(bytes(65_536))


def test_two_gigabytes_of_memory_are_enough(disturbed: Disturbed, tmp_path: Path) -> None:
    root = tmp_path / "small"
    with disturbed.running(root) as run, _limited(run, 2 * 1024**3) as most, disturbed.sending():
        restarts = 'pid_quota_part_restarts_total{part="stream"}'
        before = run.metric(restarts)
        # The JVM starts anew within the limit.
        os.kill(run.pid(JVM), signal.SIGKILL)
        run.until(lambda: run.metric(restarts) > before, "it is started again")
        run.wait_until_ready()
        time.sleep(30)
        assert run.metric(restarts) == before + 1
        assert most() < 2 * 1024**3


@contextmanager
def _limited(run: Run, limit: int) -> Iterator[Callable[[], int]]:
    """Limit the memory of a `run` and its processes by a control group (v1). Yields what gives its maximum."""
    group = MEMORY / f"pid-quota-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
    except OSError:
        pytest.skip("a file system can't be mounted here: no control group of memory")
    for pid in (run.process.pid, *processes_below(run.process.pid)):
        (group / "cgroup.procs").write_text(str(pid))
    try:
        yield lambda: int((group / "memory.max_usage_in_bytes").read_text())
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (MEMORY / "cgroup.procs").write_text(member)
        group.rmdir()

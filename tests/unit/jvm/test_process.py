import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from jvm.process import end, reading, start_watched
from tests.kits.process_kit import left_of, processes_naming

LEAVES_A_CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], stdin=subprocess.DEVNULL)
time.sleep(600)
"""
DEAF = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(600)"
"""A child that nothing but SIGKILL ends, as a JVM that fails to start."""
STARTER = """
import pathlib, sys, time
from jvm.process import start_watched
started = start_watched(sys.argv[2:], pathlib.Path(sys.argv[1]))
time.sleep(600)
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """A text in the command of each process of a test, of which none may be left."""
    mark = uuid.uuid4().hex
    yield mark
    left = left_of(mark)
    for pid in processes_naming(mark):
        os.kill(pid, signal.SIGKILL)
    assert left == []


def parent_of_one_that_is_deaf(mark: str) -> list[str]:
    return [sys.executable, "-c", LEAVES_A_CHILD, mark, DEAF]


def wait_for(mark: str, processes: int) -> None:
    """Wait until so many processes run: the watchdog's command has the mark, too."""
    give_up_at = time.monotonic() + 60
    while len(processes_naming(mark)) < processes:
        assert time.monotonic() < give_up_at, processes_naming(mark)
        time.sleep(0.02)


def test_a_program_that_is_ended_takes_along_what_it_started(mark: str, tmp_path: Path) -> None:
    process = start_watched(parent_of_one_that_is_deaf(mark), tmp_path / "log")
    wait_for(mark, 3)
    end(process, 20)


def test_a_program_that_ended_by_itself_takes_along_what_it_started(mark: str, tmp_path: Path) -> None:
    process = start_watched(parent_of_one_that_is_deaf(mark), tmp_path / "log")
    wait_for(mark, 3)
    process.kill()
    process.wait()
    end(process, 20)


@pytest.mark.parametrize("after_s", [0, 0.005, 0.02, 0.1])
def test_a_program_may_be_ended_at_any_moment_of_its_start(mark: str, tmp_path: Path, after_s: float) -> None:
    process = start_watched(parent_of_one_that_is_deaf(mark), tmp_path / "log")
    time.sleep(after_s)
    end(process, 20)


def test_a_program_whose_end_is_interrupted_is_killed(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start_watched(parent_of_one_that_is_deaf(mark), tmp_path / "log")
    wait_for(mark, 3)
    monkeypatch.setattr(process, "wait", interrupted_once(process))
    with pytest.raises(KeyboardInterrupt):
        end(process, 20)


def interrupted_once(process: subprocess.Popen[bytes]) -> object:
    ordinary, calls = process.wait, []

    def wait(timeout: float | None = None) -> int:
        calls.append(timeout)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return ordinary(timeout)

    return wait


def test_a_program_that_is_read_takes_along_what_it_started(mark: str) -> None:
    with reading(parent_of_one_that_is_deaf(mark)):
        wait_for(mark, 3)


@pytest.mark.parametrize("processes", [2, 4])
def test_a_starter_that_is_killed_takes_along_what_its_program_started(
    mark: str, tmp_path: Path, processes: int
) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path / "log"), *parent_of_one_that_is_deaf(mark)]
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": root}) as starter:
        # Two: the program's process is there, perhaps not yet the program.
        wait_for(mark, processes)
        starter.kill()


def test_ctrl_c_in_the_terminal_is_left_to_the_starter(mark: str, tmp_path: Path) -> None:
    process = start_watched(parent_of_one_that_is_deaf(mark), tmp_path / "log")
    assert os.getpgid(process.pid) != os.getpgrp()
    end(process, 20)

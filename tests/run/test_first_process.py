"""`pid-quota run` as the first process of a container."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kits.process_kit import in_group
from tests.kits.run_kit import LIMIT_S, Run, is_there, wait_until_it_catches_signals
from tests.kits.stream_command_kit import processes_below

NOWHERE = "127.0.0.1:9"
UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
ORPHAN = "import os, time\nif os.fork():\n    os._exit(0)\ntime.sleep(3)"


def can_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not can_unshare(), reason="a file system can't be mounted here")


@contextmanager
def first_process(data: Path) -> Iterator[tuple[Run, int]]:
    """Run as process 1 of a namespace, and yield its process id outside of the namespace, too."""
    log = data.with_name("run.log")
    log.write_bytes(b"")
    command = [sys.executable, "-m", "jobs", "run", "--bootstrap-server", NOWHERE, "--data", str(data)]
    ports = ["--console", "0", "--metrics", "0"]
    with in_group([*UNSHARE, *command, *ports], log) as process:
        run = Run(process, log)
        run.until(lambda: len(_children(process.pid)) == 1, "it begins")
        yield run, _children(process.pid)[0]


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_it_reaps_orphans_and_ends_on_sigterm(tmp_path: Path) -> None:
    with first_process(tmp_path / "data") as (run, pid):
        run.until(lambda: run.get("/healthz")[0] == 200, "it runs")

        # when an orphan ends beside its own children
        nsenter = ["nsenter", "--target", str(pid), "--pid", "--mount", sys.executable, "-c", ORPHAN]
        assert subprocess.run(nsenter, check=False).returncode == 0
        time.sleep(5)
        states = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0] for each in _children(pid)]
        assert "Z" not in states

        # then it ends with all that it has started
        below = set(processes_below(pid))
        os.kill(pid, signal.SIGTERM)
        assert run.process.wait(LIMIT_S) == 0
        assert not [each for each in below if is_there(each)]


@pytest.mark.parametrize("after_s", [0.0, 0.2])
def test_it_ends_on_a_signal_that_comes_while_it_starts(tmp_path: Path, after_s: float) -> None:
    with first_process(tmp_path / "data") as (run, pid):
        wait_until_it_catches_signals(pid)
        time.sleep(after_s)
        os.kill(pid, signal.SIGTERM)
        assert run.process.wait(LIMIT_S) == 0

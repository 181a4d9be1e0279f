"""Processes that a test starts, and finds whatever their parent; calls that go on beside it."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

MARK = "PID_QUOTA_TEST_PROCESS"
"""A variable in the environment of all that a process of pytest starts; each has its own value."""
_ENDS_WITHIN_S = 20.0


def processes_naming(text: object) -> list[int]:
    """Return the processes, without this one, that have a text in their command or their first environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            says = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            # It has ended, or is another user's.
            continue
        if str(text).encode() in says and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def left_of(text: object) -> list[str]:
    """Return the commands of the processes that have a text and don't end: what was killed takes a moment."""
    give_up_at = time.monotonic() + _ENDS_WITHIN_S
    while (found := processes_naming(text)) and time.monotonic() < give_up_at:
        time.sleep(0.1)
    return [f"{pid}: {_command(pid)}" for pid in found]


@contextmanager
def in_group(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command, and what it starts, as a process group of its own; kill the group at the end of the block."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 a process and what it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def repeating(call: Callable[[], object], pause_s: float = 0.0) -> Iterator[None]:
    """Call a function again and again in a thread of its own until the block ends; raise its error then."""
    stop, errors = threading.Event(), list[Exception]()

    def work() -> None:
        try:
            while not stop.is_set():
                call()
                stop.wait(pause_s)
        # The test has to know, whatever it is.
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert errors == []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:500]
    except OSError:
        return "has ended by now"

"""Starts other programs, always by argument list and never through a shell. No other module of pid-quota starts any.

Except in `run_to_end`, each program leads a process group. Its starter or its watchdog ends the group as a whole.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

# -I -S: the watchdog needs only the standard library, so skip site packages and user settings.
_WATCHED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("watchdog.py")))
_LEFT_S = 5.0
"""After a program has ended, its own children have this long to end before they are killed."""
_POLL_S = 0.05


def run_to_end(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a program; return its exit code and its output, stdout and stderr combined.

    After a timeout, kill the program and raise `subprocess.TimeoutExpired`.
    """
    done = subprocess.run(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    return done.returncode, done.stdout


@contextmanager
def reading(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a program that ends with the block or this process at the latest. Its `stdout` includes its stderr."""
    process = subprocess.Popen(
        [*_WATCHED, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def end(process: subprocess.Popen[bytes], within_s: float) -> None:
    """Terminate a program of `start_watched` and its children; kill them after a timeout or an interrupt."""
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(within_s)
            # Spark's JVM ends a moment after Python, because it removes its temporary files.
            _end_group(process.pid)
    finally:
        process.kill()
        if process.stdin:
            # This makes the watchdog kill the rest of the group.
            process.stdin.close()
        process.wait()


def _end_group(group: int) -> None:
    """Terminate the members of a group whose leader has ended; return once they have ended, or after `_LEFT_S`."""
    give_up_at = time.monotonic() + _LEFT_S
    number: int = signal.SIGTERM
    while time.monotonic() < give_up_at:
        with suppress(ChildProcessError):
            # In a container, the first process inherits orphans. A zombie stays in the group until it is reaped.
            os.waitpid(-group, os.WNOHANG)
        try:
            os.killpg(group, number)
        except OSError:
            # The group has no member left.
            return
        number = 0
        time.sleep(_POLL_S)


def start_watched(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    """Start a program. It and its children end with this process, even on SIGKILL (see `jvm.watchdog`).

    Ctrl-C in a terminal does not reach the program, so end it by `end`. Its stdout and stderr are appended to `output`.
    """
    with output.open("ab") as log:
        return subprocess.Popen(
            [*_WATCHED, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

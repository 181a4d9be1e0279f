"""Starts other programs, by argument list and never through a shell. No other module of pid-quota starts programs.

Except in `run_to_end`, each program leads a process group. The program's starter or watchdog ends the whole group.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

# -I -S skip site packages and user settings.
_WATCHED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("watchdog.py")))
_LEFT_S = 5.0
"""When a program has ended, its children have this long to end before they are killed."""
_POLL_S = 0.05


def run_to_end(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a program, and return the exit code and the output (stdout and stderr).

    Raises:
        subprocess.TimeoutExpired: After the timeout. The program is killed.
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
    """Run a program during the `with` block, at most until this process ends. Its `stdout` includes stderr."""
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
    """Terminate a program from `start_watched` and its children. Kill them after the timeout or an interrupt."""
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(within_s)
            # Spark's JVM removes temporary files after Python has ended.
            _end_group(process.pid)
    finally:
        process.kill()
        if process.stdin:
            # The watchdog then kills the rest of the group.
            process.stdin.close()
        process.wait()


def _end_group(group: int) -> None:
    """Terminate the members of a group whose leader has ended. Wait at most `_LEFT_S` for them to end."""
    give_up_at = time.monotonic() + _LEFT_S
    number: int = signal.SIGTERM
    while time.monotonic() < give_up_at:
        with suppress(ChildProcessError):
            # If this process is a container's first, it inherits orphans. A zombie stays in the group until `waitpid`.
            os.waitpid(-group, os.WNOHANG)
        try:
            os.killpg(group, number)
        except OSError:
            # All members have ended.
            return
        number = 0
        time.sleep(_POLL_S)


def start_watched(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    """Start a program that appends stdout and stderr to `output`. Ctrl-C does not reach the program.

    The program and its children also end if this process ends, even by SIGKILL (see `jvm.watchdog`).
    """
    with output.open("ab") as log:
        return subprocess.Popen(
            [*_WATCHED, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

"""Starts other programs: always by argument list, never through a shell. Nothing else in the package does."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# -I -S: no site packages, no user settings; the watchdog needs the standard library only.
_WATCHED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("watchdog.py")))


def run_to_end(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a program; return its exit code and its output, stdout and stderr combined.

    Args:
        command: path of the program and its arguments.
        timeout_s: after which it is killed and `subprocess.TimeoutExpired` is raised.
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


def start_reading(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a program that dies with this process; read its output (stdout and stderr combined) from `stdout`."""
    return subprocess.Popen(
        [*_WATCHED, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


@contextmanager
def reading(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a program as `start_reading` does; kill it when the block ends, also on Ctrl-C."""
    process = start_reading(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def end(process: subprocess.Popen[bytes], within_s: float) -> None:
    """Terminate a program of `start_watched`; kill it after a timeout."""
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        # Ends its watchdog.
        process.stdin.close()


def start_watched(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    """Start a program that dies with this process, even on SIGKILL (see `broker.watchdog`).

    Args:
        command: path of the program and its arguments.
        output: file to which its stdout and stderr are appended.

    Returns:
        The process; its `pid` is that of the program itself, and closing its `stdin` ends it.
    """
    with output.open("ab") as log:
        return subprocess.Popen(
            [*_WATCHED, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

"""Starts other programs, by argument list and never through a shell. No other module of pid-quota starts programs.

Except in `run_to_end`, each program leads a process group. The program's starter or watchdog ends the whole group.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

# -I -S skip site packages and user settings.
_WATCHED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("watchdog.py")))
_LEFT_S = 5.0
"""When a program has ended, its children have this long to end before they are killed."""
_ALONE_S = 1.0
"""Spark's JVM ends by itself within this time. A signal would also end the program that deletes its files."""
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


def end(process: subprocess.Popen[bytes], within_s: float) -> None:
    """Terminate a program from `start_watched` and its children. Kill them after the timeout or an interrupt."""
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(within_s)
            # Spark's JVM removes temporary files after Python has ended.
            rest = _Rest(process.pid)
            while not rest.is_over():
                time.sleep(_POLL_S)
    finally:
        process.kill()
        if process.stdin:
            # The watchdog then kills the rest of the group.
            process.stdin.close()
        process.wait()


class _Rest:
    """The members of a group whose leader has ended: terminated after `_ALONE_S`, killed after `_LEFT_S`."""

    def __init__(self, group: int) -> None:
        self._group, self._since_s = group, time.monotonic()
        self._is_told = False

    def is_over(self) -> bool:
        """Return whether all members have ended. Killed members are not waited for."""
        with suppress(ChildProcessError):
            # If this process is a container's first, it inherits orphans. A zombie stays in the group until `waitpid`.
            os.waitpid(-self._group, os.WNOHANG)
        left_s = time.monotonic() - self._since_s
        number: int = signal.SIGKILL if left_s > _LEFT_S else 0
        if not (number or self._is_told) and left_s > _ALONE_S:
            self._is_told, number = True, signal.SIGTERM
        try:
            os.killpg(self._group, number)
        except OSError:
            return True
        return left_s > _LEFT_S


class Watched:
    """A program whose output this process reads, and which ends with this process. No method waits."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        hands_down: Sequence[int] = (),
    ) -> None:
        """Start the program. It inherits the file descriptors `hands_down`."""
        self._rest: _Rest | None = None
        self._process = subprocess.Popen(
            [*_WATCHED, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=None if environment is None else dict(environment),
            pass_fds=tuple(hands_down),
        )
        # The caller may read this after the program's end, so it closes this.
        self.output = self._process.stdout

    @property
    def pid(self) -> int:
        """The process id of the program, and the id of its group."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the program's exit code, or None before the program and its children have ended.

        Children that outlive the program are terminated, and after five seconds killed.
        """
        code = self._process.poll()
        if code is None:
            return None
        self._rest = self._rest or _Rest(self.pid)
        if self._process.stdin and not self._process.stdin.closed:
            if not self._rest.is_over():
                return None
            self._process.stdin.close()
        return code

    def terminate(self) -> None:
        """Ask the program to end. One that was stopped goes on first."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the program and its children."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()

    def abandon(self) -> None:
        """Kill the program and its children, and wait for its end. Nobody reads its output."""
        self.kill()
        self._process.communicate()

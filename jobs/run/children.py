"""Child processes of `pid-quota run`, whose output a thread reads, so that no child ever waits for a reader."""

import errno
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO

from jobs.run.log import Lines
from jvm.process import Watched

ERROR = "error: "
"""How the last line of a command that failed begins."""
_PANIC = re.compile(r"thread '[^']*' (\(\d+\) )?panicked at ")
"""How a panic of a library in Rust begins. Its message is the next line, and Python gets the error anyway."""
_NOTE_OF_PANIC = "note: run with `RUST_BACKTRACE="
_READ_BYTES = 65_536
_REST_S = 1.0


@dataclass(frozen=True)
class Command:
    """A Python program to run as a child.

    Attributes:
        arguments: arguments after `python`. Everybody on the host can read them, so they hold no secret.
        environment: all variables.
        hands_down: file descriptors that the child inherits.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    hands_down: tuple[int, ...] = ()


class ChildProcess:
    """A child process. `take` gets each line that it prints, but for an error that ends its output (see `error`)."""

    def __init__(self, command: Command, take: Callable[[str], None]) -> None:
        self._take = take
        self._lock = threading.Lock()
        self._held = ""
        self._is_panic = False
        self._process = Watched(
            [sys.executable, *command.arguments], command.environment, hands_down=command.hands_down
        )
        try:
            self._pump = start_thread("pump", self._read, self._process.output)
        except OSError:
            self._process.abandon()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code once the process and its children have ended."""
        code = self._process.exit_code()
        if code is not None:
            # The pipe's end follows at once, unless a process outside the group has inherited it.
            self._pump.join(_REST_S)
        return code

    def terminate(self) -> None:
        """Ask the process to end."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the process and its children."""
        self._process.kill()

    def error(self) -> str:
        """Return the message of the error line that ended the output, or an empty text. The caller prints it."""
        with self._lock:
            held, self._held = self._held, ""
        return held.removeprefix(ERROR)

    def _read(self, output: IO[bytes]) -> None:
        lines = Lines(self._line)
        with output:
            while data := os.read(output.fileno(), _READ_BYTES):
                lines.feed(data)
        lines.close()

    def _line(self, text: str) -> None:
        if _PANIC.match(text) or text.startswith(_NOTE_OF_PANIC):
            self._is_panic = self._is_panic or not text.startswith(_NOTE_OF_PANIC)
            return
        if self._is_panic:
            self._is_panic, text = False, f"a library has failed: {text}"
        with self._lock:
            held, self._held = self._held, text if text.startswith(ERROR) else ""
        if held:
            self._take(held)
        if not text.startswith(ERROR):
            self._take(text)


def start_thread(name: str, work: Callable[..., None], *arguments: object) -> threading.Thread:
    """Start a thread that does not outlive this process. Raises OSError if the host has no room for one."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from error
    return thread


def reap_orphans(own: frozenset[int]) -> None:
    """Reap processes that this process has inherited as the first of a container, but none of its `own` children.

    `waitid` only looks, so that `Popen` still gets the exit codes of its own.
    """
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in own:
            return
        os.waitpid(found.si_pid, os.WNOHANG)

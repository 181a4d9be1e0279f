"""Child processes of `pid-quota run`, whose output a thread reads, so that no child ever waits for a reader."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO

from jobs.run.log import Lines
from jvm.process import Watched

ERROR = "error: "
"""How the last line of a command that failed begins."""
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
        self._process = Watched(
            [sys.executable, *command.arguments], command.environment, hands_down=command.hands_down
        )
        self.started_s = time.monotonic()
        self._pump = threading.Thread(target=self._read, args=[self._process.output], name="pump", daemon=True)
        self._pump.start()

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
        with self._lock:
            held, self._held = self._held, text if text.startswith(ERROR) else ""
        if held:
            self._take(held)
        if not text.startswith(ERROR):
            self._take(text)


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

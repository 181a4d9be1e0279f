"""A `pid-quota` process on a pseudo terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from types import TracebackType


class Terminal:
    """Runs the program on a terminal of some columns; a `with` block kills it at its end."""

    def __init__(self, width: int, *arguments: object, **environment: str) -> None:
        self._side, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jobs", *map(str, arguments)],
            stdin=other,
            stdout=other,
            stderr=other,
            env=inherited | {"TERM": "xterm-256color"} | environment,
        )
        os.close(other)
        self._output = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._side)

    @property
    def text(self) -> str:
        """The output so far, without control sequences; a read may end within a character or a sequence."""
        shown = self._output.decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r\n", "\n")

    def wait_for(self, text: str) -> None:
        while text not in self.text:
            assert self._read(), self.text

    def _read(self) -> bool:
        assert select.select([self._side], [], [], 120)[0], self.text
        try:
            output = os.read(self._side, 65_536)
        except OSError:
            return False
        self._output += output
        return bool(output)

    def interrupt(self) -> None:
        """Send what a terminal sends for Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read all output, so that the process can exit, and return its exit code."""
        while self._read():
            pass
        return self._process.wait(60)

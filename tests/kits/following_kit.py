"""A following command as a process: its lines, and its exit."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_LIMIT_S = 120.0


class Following:
    """Runs `pid-quota` with a pipe as its output."""

    def __init__(self, *arguments: object, program: Sequence[str] = ("-m", "jobs")) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, *program, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Buffered, as for its users: a line must come without waiting for more.
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", "PYTHONFAULTHANDLER": "1"},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def wait_for(self, count: int) -> list[str]:
        """Return the lines, once there are so many."""
        give_up_at = time.monotonic() + _LIMIT_S
        while len(self.lines) < count:
            assert self._process.poll() is None, self._errors()
            assert time.monotonic() < give_up_at, self.lines
            time.sleep(0.02)
        return list(self.lines)

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Send a signal; return exit code and standard error."""
        self._process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Wait for its end; return exit code and standard error. Fail with its threads' stacks if it hangs."""
        try:
            code = self._process.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()
            msg = f"no end within {_LIMIT_S:g} s: {self._errors()}"
            raise AssertionError(msg) from None
        return code, self._errors()

    def has_ended(self) -> bool:
        """Return whether the process has ended. If so, all its lines have been read."""
        if self._process.poll() is None:
            return False
        self._reader.join()
        return True

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read()

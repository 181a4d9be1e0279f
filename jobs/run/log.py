"""The one log of `pid-quota run`: a line begins with the name of the part that it comes from.

Nobody waits for a reader of the log. Lines that nobody takes are dropped and counted.
"""

import json
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Literal, TextIO

from jobs.output.human import plural, time_of
from jobs.output.terminal import printable
from tables.times import to_time

LogFormat = Literal["text", "json"]
MAX_LINE_BYTES = 16_384
MAX_WAITING_CHARS = 4_000_000
"""Lines that wait for a reader have at most this many characters."""
OWN = "run"
"""Name of the parent's lines."""
_WIDTH = 8
_CLOSE_S = 2.0
_DATED = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\dZ) ")


class RunLog:
    """Prints lines in a thread of its own. Thread-safe.

    Attributes:
        dropped: number of lines that were not printed.
    """

    def __init__(
        self, form: LogFormat = "text", output: TextIO | None = None, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._form, self._output, self._clock_s = form, output or sys.stdout, clock_s
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._chars, self._lost, self.dropped = 0, 0, 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def say(self, message: str) -> None:
        """Print a line of the parent."""
        at = time_of(to_time(round(self._clock_s() * 1000)))
        self.line(OWN, f"{at} {message}")

    def line(self, part: str, message: str) -> None:
        """Print a line of a part."""
        text = self._formed(part, printable(message.expandtabs(4)).plain)
        with self._changed:
            if self._chars > MAX_WAITING_CHARS:
                self._lost += 1
                self.dropped += 1
                return
            if self._lost:
                lost = self._formed(OWN, f"{plural(self._lost, 'line')} dropped, because nobody read this log")
                self._lost = 0
                text = f"{lost}\n{text}"
            self._lines.append(text)
            self._chars += len(text)
            self._changed.notify()

    def close(self) -> None:
        """Print what waits, unless nobody reads it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)

    def _formed(self, part: str, message: str) -> str:
        if self._form == "text":
            return f"{part:<{_WIDTH}} | {message}"
        # Most of our lines begin with their time.
        dated = _DATED.match(message)
        at = datetime.fromtimestamp(self._clock_s(), timezone.utc)
        said_at = f"{dated[1]}T{dated[2]}" if dated else f"{at:%Y-%m-%dT%H:%M:%SZ}"
        text = message[dated.end() :] if dated else message
        return json.dumps({"time": said_at, "part": part, "message": text}, ensure_ascii=False)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._is_closed:
                    self._changed.wait()
                if not self._lines:
                    return
                text = "\n".join(self._lines)
                self._lines.clear()
            try:
                self._output.write(_encodable(f"{text}\n", self._output.encoding))
                self._output.flush()
            except BrokenPipeError:
                # The reader has closed the log, and the parts go on. Discard what Python would write at its end.
                self.dropped += text.count("\n") + 1
                with suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), self._output.fileno())
            except (OSError, ValueError):
                # The disk of the log is full, or somebody has closed the output.
                self.dropped += text.count("\n") + 1
            with self._changed:
                self._chars = sum(map(len, self._lines))


def _encodable(text: str, encoding: str | None) -> str:
    """Return a text whose characters that an output lacks, such as `ł` in Latin-1, are escaped."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


class Lines:
    """Cuts the bytes that a process prints into lines, of at most `MAX_LINE_BYTES` each."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._begun = bytearray()
        self._cut = 0

    def feed(self, data: bytes) -> None:
        """Take bytes as they come."""
        *whole, rest = data.split(b"\n")
        for each in whole:
            self._add(each)
            self._end()
        self._add(rest)

    def close(self) -> None:
        """Take the last line, which may lack its end."""
        if self._begun or self._cut:
            self._end()

    def _add(self, data: bytes) -> None:
        room = MAX_LINE_BYTES - len(self._begun)
        self._begun += data[:room]
        self._cut += max(0, len(data) - room)

    def _end(self) -> None:
        text = self._begun.decode(errors="replace").rstrip("\r")
        if self._cut:
            text += f" … ({self._cut} bytes more)"
        if text:
            self._take(text)
        self._begun.clear()
        self._cut = 0

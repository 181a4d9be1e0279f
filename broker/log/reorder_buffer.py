"""Brings a broker's lines into the order of their numbers, and says when one is missing. Pure.

Our log settings number the lines of a broker before they write its message. What follows from that: a line that the
broker's logging, a log shipper or a rotation lost leaves a gap. Threads write side by side, so a number may also come a
little late: the lines behind a gap wait for it, not for long. A broker that starts again begins again with 1.
"""

from __future__ import annotations

from collections import deque

import msgspec

WAIT_S = 1.0
"""How long lines wait for one that is missing, while no more come."""

MAX_HELD_LINES = 10_000
MAX_HELD_BYTES = 8 * 1024 * 1024

# A first line may be ahead of others that were numbered before it: so much, far more than there are threads.
_SLACK = 1_000
# Lines that come after they were given up; lower numbers are those of another start of the broker.
_MAX_LATE = 100_000


class ReorderState(msgspec.Struct, frozen=True):
    """What the next run of a tap has to know.

    Attributes:
        next: number of the line that is due.
        held: lines that wait for it.
        unsure_until_ms: time of the log until which a request may be missing, see `broker.attribution.pending_inits`.
    """

    next: int
    held: list[bytes] = []
    unsure_until_ms: int = 0


class ReorderBuffer:
    """Of the lines of one broker."""

    def __init__(self) -> None:
        self.next = 0
        """Number of the line that is due, for whoever reads it at once; 0 as long as none came."""
        self.waits = False
        """Whether lines are held: then none is read at once."""
        self.lost_lines = 0
        self._held: dict[int, bytes] = {}
        self._held_bytes = 0
        self._held_since_s = 0.0
        # From and to, of numbers that were given up.
        self._skipped: deque[tuple[int, int]] = deque(maxlen=64)

    def held(self) -> list[bytes]:
        """The lines that wait, the lowest number first."""
        return [line for _, line in sorted(self._held.items())]

    def push(self, number: int, line: bytes, now_s: float) -> list[bytes | None]:
        """Take a line that is not due at once.

        Args:
            number: of it.
            line: the whole of it.
            now_s: seconds of any clock that does not go back.

        Returns:
            The lines that can be read now; None stands where some are missing.
        """
        out: list[bytes | None] = []
        if number in self._held:
            # Sent again; what stood between is not known.
            return [None, line]
        if number < self.next:
            if self._is_late(number):
                # What came before it on its thread, or has come since, is not known.
                self.lost_lines -= 1
                return [None, line, None]
            # The broker has started again, or a shipper sends again what it sent before.
            while self._held:
                out += self._skip_gap(now_s)
            out.append(None)
            self.next = 0
        if self.next == 0:
            self.next = 1 if number <= _SLACK and out else number
            self._skipped.clear()
            self._skipped.append((max(1, number - _SLACK), self.next - 1))
        if not self._held:
            self._held_since_s = now_s
        self._held[number] = line
        self._held_bytes += len(line)
        self.waits = True
        out += self._ready(now_s)
        while len(self._held) > MAX_HELD_LINES or self._held_bytes > MAX_HELD_BYTES:
            out += self._skip_gap(now_s)
        return out

    def flush_expired(self, now_s: float) -> list[bytes | None]:
        """The lines that have waited long enough, as `push` hands them out."""
        return self._skip_gap(now_s) if self._held and now_s - self._held_since_s >= WAIT_S else []

    def _is_late(self, number: int) -> bool:
        return self.next - number <= _MAX_LATE and any(first <= number <= last for first, last in self._skipped)

    def _ready(self, now_s: float) -> list[bytes | None]:
        out: list[bytes | None] = []
        while self._held and self.next in self._held:
            line = self._held.pop(self.next)
            self._held_bytes -= len(line)
            self.next += 1
            out.append(line)
        self.waits = bool(self._held)
        if out:
            self._held_since_s = now_s
        return out

    def _skip_gap(self, now_s: float) -> list[bytes | None]:
        first = min(self._held)
        self._skipped.append((self.next, first - 1))
        self.lost_lines += first - self.next
        self.next = first
        return [None, *self._ready(now_s)]

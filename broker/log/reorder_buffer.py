"""Reorders a broker's lines by their numbers and detects missing ones. Pure.

Our log settings number the lines of a broker, so a line lost by its logging, a log shipper or a rotation leaves a gap.
Threads write concurrently, so a number may also arrive late: lines after a gap wait for it, briefly. A restarted broker
starts again at 1.
"""

from collections import deque

import msgspec

WAIT_S = 1.0
"""How long a line waits for a missing one before it while nothing arrives."""

MAX_HELD_LINES = 10_000
MAX_HELD_BYTES = 8 * 1024 * 1024

# The first line may precede lower numbers by at most this, far more than there are threads.
_SLACK = 1_000
# How late a skipped line may arrive; lower numbers mean that the broker restarted.
_MAX_LATE = 100_000


class ReorderState(msgspec.Struct, frozen=True):
    """State that the next run of a tap needs.

    Attributes:
        next: next expected number.
        held: lines waiting for it.
        unsure_until_ms: log time until which requests may be missing, see `broker.attribution.pending_inits`.
    """

    next: int
    held: list[bytes] = []
    unsure_until_ms: int = 0


class ReorderBuffer:
    """Reorders the lines of one broker."""

    def __init__(self) -> None:
        self.next = 0
        """Next expected number; 0 before the first line. Callers may advance it for a line in order."""
        self.waits = False
        """Whether lines are held; then every line must be pushed."""
        self.lost_lines = 0
        self._held: dict[int, bytes] = {}
        self._held_bytes = 0
        self._came_s: dict[int, float] = {}
        # Ranges of skipped numbers.
        self._skipped: deque[tuple[int, int]] = deque(maxlen=64)

    def held(self) -> list[bytes]:
        """Held lines, lowest number first."""
        return [line for _, line in sorted(self._held.items())]

    def push(self, number: int, line: bytes, now_s: float) -> list[bytes | None]:
        """Add a line that is out of order.

        Args:
            number: its number.
            line: the whole line.
            now_s: monotonic clock, in seconds.

        Returns:
            Lines ready to be read; None stands for a gap.
        """
        out: list[bytes | None] = []
        if number in self._held:
            # Sent again; what was between is unknown.
            return [None, line]
        if number < self.next:
            if self._is_late(number):
                # Its neighbours on its thread are unknown.
                self.lost_lines -= 1
                return [None, line, None]
            # The broker restarted, or a shipper resends.
            while self._held:
                out += self._skip_gap(min(self._held))
            out.append(None)
            self.next = 0
        if self.next == 0:
            self.next = 1 if number <= _SLACK and out else number
            self._skipped.clear()
            self._skipped.append((max(1, number - _SLACK), self.next - 1))
        self._held[number], self._came_s[number] = line, now_s
        self._held_bytes += len(line)
        self.waits = True
        out += self._ready()
        while len(self._held) > MAX_HELD_LINES or self._held_bytes > MAX_HELD_BYTES:
            out += self._skip_gap(min(self._held))
        return out

    def flush_expired(self, now_s: float) -> list[bytes | None]:
        """Return lines that have waited long enough, as `push` does."""
        out: list[bytes | None] = []
        # Gaps wait concurrently: one after the other they would delay the tap too long.
        for number in sorted(self._held):
            if number not in self._held:
                continue
            if now_s - self._came_s[number] < WAIT_S:
                break
            out += self._skip_gap(number)
        return out

    def _is_late(self, number: int) -> bool:
        return self.next - number <= _MAX_LATE and any(first <= number <= last for first, last in self._skipped)

    def _ready(self) -> list[bytes | None]:
        out: list[bytes | None] = []
        while self._held and self.next in self._held:
            line = self._held.pop(self.next)
            del self._came_s[self.next]
            self._held_bytes -= len(line)
            self.next += 1
            out.append(line)
        self.waits = bool(self._held)
        return out

    def _skip_gap(self, first: int) -> list[bytes | None]:
        self._skipped.append((self.next, first - 1))
        self.lost_lines += first - self.next
        self.next = first
        return [None, *self._ready()]

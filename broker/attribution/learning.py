"""Since when a broker has been watched without a gap. Pure: no clock.

Producer ids that appear in the first window of a watch may have been there before, so the tap marks their events
`learning`, and the stream does not charge them. A new watch begins where lines were lost, or where the log was off: it
was silent for longer than that window, and nobody saw that it was on. An idle broker is no gap: the tap asks for its
log levels (`broker.tap.log_levels_watch`) and says so here.
"""

from __future__ import annotations

import msgspec

# Threads write side by side: a line may be that much older than one before it.
_OUT_OF_ORDER_MS = 1_000


class LearningTime(msgspec.Struct):
    """The watch over one broker's log, kept with the position in it.

    Attributes:
        since_ms: broker time of its first line, ms since the epoch; -1 before that.
        newest_ms: broker time up to which it was watched: of its newest line, or later; -1 before the first.
        before_ms: `since_ms` of the watch that a silence ended, -1 for none: a line from the future looks like one.
        lost: lines were lost behind the newest one, or the log was off.

    Examples:
        >>> watch = LearningTime()
        >>> [watch.is_learning(at_ms, learn_ms=100) for at_ms in (1000, 1099, 1100, 1150, 1251)]
        [True, True, False, False, True]
    """

    since_ms: int = -1
    newest_ms: int = -1
    before_ms: int = -1
    lost: bool = False

    def is_learning(self, timestamp_ms: int, learn_ms: int) -> bool:
        """Take note of a line; say whether it comes so early that its producer id may be an old one.

        Args:
            timestamp_ms: broker time of the line, ms since the epoch.
            learn_ms: how long a watch learns, and the longest silence it outlives; 0 turns learning off.
        """
        self.observe(timestamp_ms, learn_ms)
        return learn_ms > 0 and timestamp_ms < self.since_ms + learn_ms

    def observe(self, timestamp_ms: int, learn_ms: int) -> None:
        """Take note of a line of any kind."""
        if self.since_ms < 0 or self.lost:
            self.since_ms = self.newest_ms = timestamp_ms
            self.before_ms, self.lost = -1, False
        elif timestamp_ms < self.since_ms - _OUT_OF_ORDER_MS:
            # The line that began this watch was ahead of its time: there was no silence.
            self.since_ms = self.before_ms if 0 <= self.before_ms <= timestamp_ms else timestamp_ms
            self.newest_ms, self.before_ms = timestamp_ms, -1
        elif timestamp_ms - self.newest_ms > learn_ms:
            self.before_ms, self.since_ms = self.since_ms, timestamp_ms
        self.newest_ms = max(self.newest_ms, timestamp_ms)

    def extend(self, for_ms: int) -> None:
        """Take note that the log was on, and at its end, for so long since this was said last."""
        if self.newest_ms >= 0:
            self.newest_ms += for_ms

    def restart(self) -> None:
        """Take note that lines were lost, or that the log was off: the next line begins a new watch."""
        self.lost = True

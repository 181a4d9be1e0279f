"""Tracks since when a broker has been watched without a gap. Pure: no clock.

Producer ids that appear in the first window of a watch may be old, so the tap marks their events `learning`, and the
stream does not charge them. A watch restarts after lost lines, or after a silence longer than the window unless the log
is known to have been on: the tap checks the log levels of silent brokers (`broker.tap.log_levels_watch`).
"""

import msgspec

# Threads write concurrently: a line may be this much older than one before it.
_OUT_OF_ORDER_MS = 1_000


class LearningTime(msgspec.Struct):
    """The watch over one broker's log, saved with its position.

    Attributes:
        since_ms: broker time of its first line, ms since the epoch; -1 before the first.
        newest_ms: broker time up to which it was watched; -1 before the first line.
        before_ms: `since_ms` of the watch that a silence ended, else -1: a line from the future looks like a silence.
        lost: lines after the newest one were lost, or the log was off.

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
        """Observe a line; return whether the watch is so young that its producer id may be old.

        Args:
            timestamp_ms: broker time of the line, ms since the epoch.
            learn_ms: how long a watch learns, and the longest silence it survives; 0 disables learning.
        """
        self.observe(timestamp_ms, learn_ms)
        return learn_ms > 0 and timestamp_ms < self.since_ms + learn_ms

    @property
    def has_begun(self) -> bool:
        """Whether there is a watch: a line was read, and none was lost since."""
        return self.since_ms >= 0 and not self.lost

    def lasts(self, learn_ms: int) -> bool:
        """Whether the watch has begun and is still learning."""
        return self.has_begun and self.newest_ms < self.since_ms + learn_ms

    def observe(self, timestamp_ms: int, learn_ms: int) -> None:
        """Observe a line of any kind."""
        if self.since_ms < 0 or self.lost:
            self.since_ms = self.newest_ms = timestamp_ms
            self.before_ms, self.lost = -1, False
        elif timestamp_ms < self.since_ms - _OUT_OF_ORDER_MS:
            # The line that started this watch was from the future: there was no silence.
            self.since_ms = self.before_ms if 0 <= self.before_ms <= timestamp_ms else timestamp_ms
            self.newest_ms, self.before_ms = timestamp_ms, -1
        elif timestamp_ms - self.newest_ms > learn_ms:
            self.before_ms, self.since_ms = self.since_ms, timestamp_ms
        self.newest_ms = max(self.newest_ms, timestamp_ms)

    def extend(self, for_ms: int) -> None:
        """Extend the watch: the log was on and fully read for this long since the last call."""
        if self.newest_ms >= 0:
            self.newest_ms += for_ms

    def restart(self) -> None:
        """Start a new watch with the next line: lines were lost, or the log was off."""
        self.lost = True

"""Tracks how long a broker has been watched without a gap."""

import msgspec

# Threads of a broker write lines concurrently, so a line may be older than the previous line by this much.
_OUT_OF_ORDER_MS = 1_000


class LearningTime(msgspec.Struct):
    """The time of a watch, by the broker's clock.

    `since_ms` and `newest_ms` are the times of the first and the newest line; -1 before the first line. `lost` tells
    whether lines after the newest line were lost.

    Examples:
        >>> watch = LearningTime()
        >>> [watch.is_learning(at_ms, learn_ms=100) for at_ms in (1000, 1099, 1100, 9000)]
        [True, True, False, False]
    """

    since_ms: int = -1
    newest_ms: int = -1
    lost: bool = False

    def is_learning(self, timestamp_ms: int, learn_ms: int) -> bool:
        """Observe a line. Return whether it is from the first `learn_ms` of the watch."""
        self.observe(timestamp_ms, learn_ms)
        return learn_ms > 0 and timestamp_ms < self.since_ms + learn_ms

    def lasts(self, learn_ms: int) -> bool:
        """Whether the watch has begun, has no gap and is still learning."""
        return self.since_ms >= 0 and not self.lost and self.newest_ms < self.since_ms + learn_ms

    def observe(self, timestamp_ms: int, learn_ms: int) -> None:
        """Observe a line."""
        if self.since_ms < 0 or self.lost:
            self.since_ms = self.newest_ms = timestamp_ms
            self.lost = False
        elif timestamp_ms < self.since_ms - _OUT_OF_ORDER_MS:
            # The broker's clock was ahead when the watch began, and has been set back.
            self.since_ms = self.newest_ms = timestamp_ms
        elif self.lasts(learn_ms) and timestamp_ms - self.newest_ms > learn_ms:
            # The tap did not watch during the time that the clock skipped.
            self.since_ms = timestamp_ms
        self.newest_ms = max(self.newest_ms, timestamp_ms)

    def restart(self) -> None:
        """Start a new watch with the next line, because lines were lost."""
        self.lost = True

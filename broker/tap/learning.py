"""Tracks how long a broker has been watched without a gap. It reads no clock.

Producer ids in the first window of a watch may be old, so the tap marks their events as `learning`.
"""

import msgspec

# Threads of a broker write lines concurrently, so a line may be older than the previous one by this much.
_OUT_OF_ORDER_MS = 1_000


class LearningTime(msgspec.Struct):
    """The time of the watch over one broker, saved with its position.

    By the broker's clock, `since_ms` is the time of the first line and `newest_ms` of the newest one, -1 before the
    first line. `lost` tells whether lines after the newest one were lost.

    Examples:
        >>> watch = LearningTime()
        >>> [watch.is_learning(at_ms, learn_ms=100) for at_ms in (1000, 1099, 1100, 9000)]
        [True, True, False, False]
    """

    since_ms: int = -1
    newest_ms: int = -1
    lost: bool = False

    def is_learning(self, timestamp_ms: int, learn_ms: int) -> bool:
        """Observe a line; return whether its producer id may be old, because the watch is young."""
        self.observe(timestamp_ms, learn_ms)
        return learn_ms > 0 and timestamp_ms < self.since_ms + learn_ms

    def lasts(self, learn_ms: int) -> bool:
        """Whether the watch has begun, has no gap and is still learning."""
        return self.since_ms >= 0 and not self.lost and self.newest_ms < self.since_ms + learn_ms

    def observe(self, timestamp_ms: int, learn_ms: int) -> None:
        """Observe a line of any kind."""
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

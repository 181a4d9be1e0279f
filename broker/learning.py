"""Since when a broker has been watched without a gap. Pure: no clock.

Producer ids that appear in the first window of a watch may have been there before, so the tap marks their events
`learning`, and the stream does not charge them. A gap in the log longer than that window begins a new watch: either
the broker was idle, and then nothing is missed by it, or its log was off, and then everything has to be learned again.
"""

from __future__ import annotations

import msgspec


class LearningTime(msgspec.Struct):
    """The watch over one broker's log, kept with the position in it.

    Attributes:
        since_ms: broker time of its first line, ms since the epoch; -1 before that.
        newest_ms: broker time of its newest line, -1 before the first.

    Examples:
        >>> watch = LearningTime()
        >>> [watch.is_learning(at_ms, learn_ms=100) for at_ms in (1000, 1099, 1100, 1150, 1251)]
        [True, True, False, False, True]
    """

    since_ms: int = -1
    newest_ms: int = -1

    def is_learning(self, timestamp_ms: int, learn_ms: int) -> bool:
        """Take note of a line; say whether it comes so early that its producer id may be an old one.

        Args:
            timestamp_ms: broker time of the line, ms since the epoch.
            learn_ms: how long a watch learns, and the longest gap it outlives; 0 turns learning off.
        """
        if self.since_ms < 0 or timestamp_ms - self.newest_ms > learn_ms:
            self.since_ms = timestamp_ms
        self.newest_ms = max(self.newest_ms, timestamp_ms)
        return learn_ms > 0 and timestamp_ms < self.since_ms + learn_ms

"""The brokers' time, from the times at which brokers appended reports."""

MAX_STEP_BACK_MS = 300_000
"""Leaders of a topic move, and clocks of brokers differ: the stream bears as much. A larger step back makes the time
unknown."""
TRUST_AGAIN_MS = 600_000
"""After a step back, the new time counts when it has lasted as long as the longest hold."""


class BrokersTime:
    """A clock that goes on by this host's monotonic clock between reports. Times are in ms since the epoch.

    Examples:
        >>> time = BrokersTime()
        >>> time.now_ms(0) is None
        True
        >>> time.observe(1_000_000, steady_ms=50)
        >>> time.now_ms(80)
        1000030
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None
        self._back_since_ms: int | None = None

    def observe(self, appended_ms: int, steady_ms: int) -> None:
        """Take the time at which a broker appended a record that has just arrived."""
        ahead_ms = appended_ms - steady_ms
        if self._ahead_ms is None or ahead_ms >= self._ahead_ms - MAX_STEP_BACK_MS:
            self._ahead_ms, self._back_since_ms = ahead_ms, None
        elif self._back_since_ms is None:
            self._back_since_ms = steady_ms
        elif steady_ms - self._back_since_ms >= TRUST_AGAIN_MS:
            self._ahead_ms, self._back_since_ms = ahead_ms, None

    def observe_old(self, appended_ms: int, steady_ms: int) -> None:
        """Take the time of a record from before the start: it is not later than now."""
        if self._ahead_ms is None or appended_ms - steady_ms > self._ahead_ms:
            self._ahead_ms = appended_ms - steady_ms

    def now_ms(self, steady_ms: int) -> int | None:
        """Return the brokers' time; None before the first record, and after a step back."""
        return None if self._ahead_ms is None or self._back_since_ms is not None else self._ahead_ms + steady_ms

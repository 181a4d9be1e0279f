"""Learning times, in which PIDs that may be old take no token. PIDs are handed out in ascending order."""

import msgspec

_ALL_PIDS = 2**63


class Learning(msgspec.Struct, frozen=True, array_like=True):
    """A learning time, after a loss of records or of state.

    Attributes:
        until_ms: Its end, in event time; 0 if there is none.
        below: The lowest PID that was not handed out yet when it began; None if unknown.
    """

    until_ms: int = 0
    below: int | None = None

    def free_below(self, at_ms: int) -> int:
        """Return the PID below which unseen PIDs take no token at an event time (ms); 0 after the learning time.

        Examples:
            >>> learning = Learning(until_ms=60_000, below=4000)
            >>> learning.free_below(59_999), learning.free_below(60_000)
            (4000, 0)
        """
        if at_ms >= self.until_ms:
            return 0
        return _ALL_PIDS if self.below is None else self.below

    def later(self, other: "Learning") -> "Learning":
        """Return the learning time that ends later. It also covers the PIDs of one that began before it."""
        return other if other.until_ms > self.until_ms else self

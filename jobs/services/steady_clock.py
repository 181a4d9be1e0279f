"""A clock for those who wait for signs of life."""

import time
from collections.abc import Callable


class SteadyClock:
    """A clock that stands still while this process is stopped, or its host is suspended.

    Otherwise, a process that goes on would take all others for silent.

    Attributes:
        now_s: the time of the newest tick.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, *, max_step_s: float = 5.0) -> None:
        """Create a clock that goes on by at most `max_step_s` per tick."""
        self._monotonic, self._max_step_s = monotonic, max_step_s
        self._ticked_s = monotonic()
        self.now_s = 0.0

    def tick(self) -> float:
        """Go on, and return the time. Call it more often than every `max_step_s`."""
        at_s = self._monotonic()
        self.now_s += min(at_s - self._ticked_s, self._max_step_s)
        self._ticked_s = at_s
        return self.now_s

    def silent_s(self) -> float:
        """Return the real time since the newest tick."""
        return self._monotonic() - self._ticked_s

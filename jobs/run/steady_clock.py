"""The clock of the supervision."""

import time
from collections.abc import Callable

_MAX_STEP_S = 5.0


class SteadyClock:
    """A clock that stands still while this process is stopped, or its host is suspended.

    Otherwise, a process that goes on would take all parts for silent.

    Attributes:
        now_s: the time of the newest tick.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._ticked_s = monotonic()
        self.now_s = 0.0

    def tick(self) -> float:
        """Go on, and return the time. Call it several times a second."""
        at_s = self._monotonic()
        self.now_s += min(at_s - self._ticked_s, _MAX_STEP_S)
        self._ticked_s = at_s
        return self.now_s

    def silent_s(self) -> float:
        """Return the real time since the newest tick."""
        return self._monotonic() - self._ticked_s

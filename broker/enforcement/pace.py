"""Limits how often something is done."""

from collections.abc import Callable


class Pace:
    """Something is due at once, then at most once per period."""

    def __init__(self, steady_ms: Callable[[], int], every_ms: int) -> None:
        self._steady_ms, self._every_ms = steady_ms, every_ms
        self._next_ms: int | None = None

    def is_due(self) -> bool:
        """Whether it is due now; the next period begins if so."""
        now_ms = self._steady_ms()
        if self._next_ms is not None and now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._every_ms
        return True

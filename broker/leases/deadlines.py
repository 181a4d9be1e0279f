"""Deadlines by two clocks: the wall clock, which may be set, and the monotonic one."""

from collections.abc import Callable, Collection


class Deadlines:
    """Remembers the time left when a deadline was first seen, so that setting the clock back extends nothing.

    Args:
        steady_ms: Monotonic clock, in milliseconds.
    """

    def __init__(self, steady_ms: Callable[[], int]) -> None:
        self._steady_ms = steady_ms
        self._ends: dict[tuple[str, int], int] = {}

    def is_past(self, name: str, until_ms: int, now_ms: int) -> bool:
        """Whether a deadline has passed, by either clock.

        Args:
            name: Identifies the lease or decision.
            until_ms: The deadline, in milliseconds since the epoch; another one of the same name starts anew.
            now_ms: Wall clock, in milliseconds since the epoch.
        """
        steady_ms = self._steady_ms()
        end = self._ends.setdefault((name, until_ms), steady_ms + max(0, until_ms - now_ms))
        return until_ms <= now_ms or end <= steady_ms

    def retain(self, names: Collection[str]) -> None:
        """Forget all others."""
        self._ends = {key: end for key, end in self._ends.items() if key[0] in names}

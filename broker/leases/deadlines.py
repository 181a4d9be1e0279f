"""Ends of leases and decisions by two clocks: one that tells the time and may be set, one that nobody can set."""

from __future__ import annotations

from collections.abc import Callable, Collection


class Deadlines:
    """Remembers how long there was to an end when it first heard of it: a clock set back makes nothing longer.

    Args:
        steady_ms: Milliseconds of a clock that nobody can set.
    """

    def __init__(self, steady_ms: Callable[[], int]) -> None:
        self._steady_ms = steady_ms
        self._ends: dict[tuple[str, int], int] = {}

    def is_past(self, name: str, until_ms: int, now_ms: int) -> bool:
        """Say whether an end has come, by either clock.

        Args:
            name: Of what ends.
            until_ms: When, in milliseconds since the epoch; another end of the same name counts anew.
            now_ms: The time.
        """
        steady_ms = self._steady_ms()
        end = self._ends.setdefault((name, until_ms), steady_ms + max(0, until_ms - now_ms))
        return until_ms <= now_ms or end <= steady_ms

    def retain(self, names: Collection[str]) -> None:
        """Forget all others."""
        self._ends = {key: end for key, end in self._ends.items() if key[0] in names}

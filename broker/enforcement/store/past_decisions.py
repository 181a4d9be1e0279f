"""Keeps decisions that have ended from coming into force again when the brokers' clock is set back."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker.enforcement.model import CLOCK_SLACK_MS


class PastDecisions:
    """The decisions that were read before the brokers' clock was last set back.

    A decision in force when the clock is set back stays with the planner. Newer decisions have other ids.
    """

    def __init__(self) -> None:
        self._last_ms = 0
        self._ids: frozenset[str] = frozenset()

    def observe(self, now_ms: int, read_ahead: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        """Compare the brokers' time with that of the previous call.

        `read_ahead` returns the rows, as last read, of decisions that end after `now_ms`.
        """
        if now_ms < self._last_ms - CLOCK_SLACK_MS:
            self._ids = frozenset(row["decision_id"] for row in read_ahead())
        self._last_ms = now_ms

    def without(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the other rows."""
        return [row for row in rows if row["decision_id"] not in self._ids]

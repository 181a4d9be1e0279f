"""Prevents ended decisions from coming into force again when the brokers' clock is set back."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker.enforcement.model import CLOCK_SLACK_MS


class PastDecisions:
    """The decisions that this enforcer had read when the brokers' clock was last set back.

    The planner keeps those that were in force at that time. A new process's planner has none.
    """

    def __init__(self) -> None:
        self._last_ms = 0
        self._ids: frozenset[str] = frozenset()

    def observe(
        self, now_ms: int, read_ahead: Callable[[], Iterable[Mapping[str, Any]]], *, was_set_back: bool = False
    ) -> None:
        """Remember the decisions read so far if the brokers' clock was set back since the previous call.

        `read_ahead` returns those rows of the last read whose decisions end after `now_ms`. With `was_set_back`, the
        caller knows that the clock was set back, perhaps before this process started.
        """
        if was_set_back or now_ms < self._last_ms - CLOCK_SLACK_MS:
            self._ids = frozenset(row["decision_id"] for row in read_ahead())
        self._last_ms = now_ms

    def without(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the rows of all other decisions."""
        return [row for row in rows if row["decision_id"] not in self._ids]

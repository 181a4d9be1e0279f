"""Leaves out what went out in the same second: within a tick of the quota a repeat of a producer id changes nothing."""

from __future__ import annotations


class Deduplicator:
    """What one broker's log said in the second that it is at."""

    def __init__(self) -> None:
        self._second = 0
        self._seen: set[tuple[int, str, str]] = set()

    def is_duplicate(self, timestamp_ms: int, producer_id: int, principal: str, client_id: str) -> bool:
        """Say whether the same came in the same second of broker time already, and note it."""
        second = timestamp_ms // 1000
        if second != self._second:
            self._second = second
            self._seen.clear()
        key = (producer_id, principal, client_id)
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

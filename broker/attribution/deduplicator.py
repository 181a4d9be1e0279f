"""Deduplicates events within a second: within a tick of the quota a repeated producer id changes nothing."""


class Deduplicator:
    """Remembers what one broker's log held in its current second."""

    def __init__(self) -> None:
        self._second = 0
        self._seen: set[tuple[int, str, str]] = set()

    def is_duplicate(self, timestamp_ms: int, producer_id: int, principal: str, client_id: str) -> bool:
        """Whether the same was seen in the same second of broker time; remembers it."""
        second = timestamp_ms // 1000
        if second != self._second:
            self._second = second
            self._seen.clear()
        key = (producer_id, principal, client_id)
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

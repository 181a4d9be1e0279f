"""Rows that another thread of the driver hands over to a query."""

from typing import Any, Protocol


class PendingRows(Protocol):
    """Rows, with times in milliseconds since the epoch, that wait until a query has written them. Thread-safe."""

    def pending(self) -> list[dict[str, Any]]:
        """Return the rows that are not written yet, the oldest first. Calls before `written` return them again."""

    def written(self, count: int) -> None:
        """Forget the first `count` rows of `pending`, because the table has them."""

"""The result of a query, of any engine."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """The result of a query: column names, and rows of Python values in the same order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dictionary."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

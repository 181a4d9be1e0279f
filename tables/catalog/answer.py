"""What a query gave, whichever engine answered."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a query gave: column names, and rows of Python values in the same order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dictionary."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

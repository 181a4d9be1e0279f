"""Reads what brokers held of a principal's producers at their newest sweeps."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tables.query.sql_query import query

HELD = """
SELECT
    CAST(sum(held_pids) AS BIGINT) AS entries,
    CAST(sum(estimated_bytes) AS BIGINT) AS estimated_bytes,
    min(swept_at) AS swept_at
FROM occupancy_now
WHERE principal = :principal
HAVING sum(held_pids) > 0
"""


def held_entries(tables: str, principal: str, now: datetime) -> Mapping[str, Any] | None:
    """Return entries, heap in bytes and time of the oldest sweep; None if no sweep has found any.

    Raises:
        TableError: If the table can't be read.
    """
    return next(iter(query(tables, HELD, now, {"principal": principal}).records()), None)

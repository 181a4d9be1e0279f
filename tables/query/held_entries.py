"""Reads the entries (`lifecycle.occupancy`) that brokers held for a principal when `pid-quota occupancy` last ran."""

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
    """Return the number of entries, their estimated bytes and the oldest `swept_at`; None without entries.

    Raises:
        TableError: If the table can't be read.
    """
    return next(iter(query(tables, HELD, now, {"principal": principal}).records()), None)

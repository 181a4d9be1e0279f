"""Reads the enforcer's leases on a principal that are in force."""

from datetime import datetime
from typing import Any

from tables.query.sql_query import query

_OPEN = """
SELECT lever, entity_user, entity_client_id, entity_ip, until, seconds_left, reason
FROM enforcement
WHERE principal = :principal AND in_force_now AND seconds_left > 0
ORDER BY until DESC
"""


def open_leases(tables: str, principal: str, now: datetime) -> list[dict[str, Any]]:
    """Return the leases in force on a principal. The lease that ends last comes first.

    Raises:
        TableError: If the table can't be read.
    """
    return query(tables, _OPEN, now, {"principal": principal}).records()

"""Reads what the tables tell of a principal: its hold, its entries on brokers, and its clients' addresses."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from tables.errors import TableNotFoundError
from tables.query.sql_query import query
from tables.times import to_ms

HOLD = "SELECT * FROM hold_status WHERE principal = :principal"
"""What stands between a principal and new producer ids: a hold, a release or the stream's plan; no row without one."""
HELD = """
SELECT
    CAST(sum(held_pids) AS BIGINT) AS entries,
    CAST(sum(estimated_bytes) AS BIGINT) AS estimated_bytes,
    min(swept_at) AS swept_at
FROM occupancy_now
WHERE principal = :principal
HAVING sum(held_pids) > 0
"""
"""The entries (`lifecycle.occupancy`) that brokers held at the last `pid-quota occupancy`; no row without entries."""
# A decision counts all refusals since its throttle began, so the newest decision suffices.
_REFUSED = """
SELECT addresses
FROM throttle_decisions
WHERE principal = :principal AND unix_millis(decided_at) > :since_ms
ORDER BY decided_at DESC, batch_id DESC, action DESC
LIMIT 1
"""
_ASKED = """
SELECT client, client_host, count(*) AS new_pids
FROM recent_inits
WHERE principal = :principal AND is_new_pid AND client_host IS NOT NULL
GROUP BY client, client_host
"""

_WITH_PRINCIPALS = ("producer_id_metrics", "throttle_decisions", "recent_inits")
_KNOWN = "SELECT 1 FROM {} WHERE principal = :principal LIMIT 1"
_NAMES = "SELECT DISTINCT principal FROM {} WHERE {} ORDER BY principal LIMIT 10000"


def is_known(tables: str, principal: str, now: datetime) -> bool:
    """Return whether tables have rows or recent requests of a principal. A missing table has none.

    Raises:
        TableError: If a table can't be read.
    """
    for table in _WITH_PRINCIPALS:
        with suppress(TableNotFoundError):
            if query(tables, _KNOWN.format(table), now, {"principal": principal}).rows:
                return True
    return False


def known_principals(tables: str, now: datetime) -> set[str]:
    """Return principals of rows and recent requests: at most 10,000 of each table. A missing table has none.

    Raises:
        TableError: If a table can't be read.
    """
    return _principals(tables, now, "principal IS NOT NULL")


def principals_of_other_types(tables: str, now: datetime) -> set[str]:
    """Return the known principals that are not of the type User. Raises the same errors as `known_principals`."""
    return _principals(tables, now, "principal LIKE '_%:_%' AND principal NOT LIKE 'User:%'")


def _principals(tables: str, now: datetime, condition: str) -> set[str]:
    found: set[str] = set()
    for table in _WITH_PRINCIPALS:
        with suppress(TableNotFoundError):
            found.update(row[0] for row in query(tables, _NAMES.format(table, condition), now).rows)
    return found


def read_fact(tables: str, select: str, principal: str, now: datetime) -> Mapping[str, Any] | None:
    """Return the row of `HOLD` or `HELD`, or None.

    Raises:
        TableError: If a table can't be read.
    """
    return next(iter(query(tables, select, now, {"principal": principal}).records()), None)


def refused_from(tables: str, principal: str, now: datetime) -> dict[str, int]:
    """Return the number of producer ids that the last throttle of the last 24 hours refused, by address.

    Raises:
        TableError: If the table can't be read.
    """
    since_ms = to_ms(now - timedelta(days=1))
    found: Counter[str] = Counter()
    for row in query(tables, _REFUSED, now, {"principal": principal, "since_ms": since_ms}).records():
        found.update(dict(row["addresses"] or {}))
    return dict(found.most_common())


def asked_from(tables: str, principal: str, now: datetime) -> dict[str, dict[str, int]]:
    """Return the number of new producer ids in the last 24 hours, by client (as in `principal_churn`) and address.

    Raises:
        TableError: If the table can't be read.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in query(tables, _ASKED, now, {"principal": principal}).records():
        found[row["client"]][row["client_host"]] += row["new_pids"]
    return {client: dict(counts.most_common()) for client, counts in found.items()}

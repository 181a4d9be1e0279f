"""The console's pages of all decisions and all leases, as JSON values."""

from datetime import datetime, timedelta
from typing import Any

from jobs.web import queries as web_sql
from jobs.web.pages import ConsoleData, later_than
from tables.query.sql_query import opened
from tables.store.values import ALL_ROWS, RowFilter
from tables.times import to_ms

SPANS_HOURS = (24, 168, 720, 8760)
"""Time spans of the pages."""
LISTED = 1_000


def decisions(data: ConsoleData, now: datetime, hours: float, name: str) -> dict[str, Any]:
    """Return the decisions of a time span, the newest first."""
    since = now - timedelta(hours=hours)
    with opened(data.tables, now, {"throttle_decisions": later_than("decided_at", since, name)}) as relations:
        found = relations.ask(web_sql.ALL_DECISIONS).records()
        page = {"name": name, "hours": hours, "decisions": found[:LISTED], "complete": len(found) <= LISTED}
        return data.framed(now, relations, page)


def leases(data: ConsoleData, now: datetime, hours: float, name: str) -> dict[str, Any]:
    """Return the leases in force or changed in a time span, and each step of the enforcer; arguments as `decisions`."""
    since = {"since_ms": to_ms(now - timedelta(hours=hours))}
    # A lease in force may be older than the span.
    rows = RowFilter("principal = :principal", {"principal": name}) if name else ALL_ROWS
    with opened(data.tables, now, {"enforcement_actions": rows}) as relations:
        found = relations.ask(web_sql.ALL_LEASES, since).records()
        steps = relations.ask(web_sql.ACTIONS, since).records()
        page = {
            "name": name,
            "hours": hours,
            "leases": found[:LISTED],
            "steps": steps[:LISTED],
            "complete": max(len(found), len(steps)) <= LISTED,
        }
        return data.framed(now, relations, page)

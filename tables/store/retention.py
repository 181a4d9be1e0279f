"""Which rows of a table have expired."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from tables.errors import TableError
from tables.schema.specs import TABLES, TableSpec
from tables.store.values import Row, RowFilter

QUOTAS = "producer_id_quotas"
"""The table whose rows do not expire, but are replaced."""
SEVERAL_ROWS = RowFilter(
    "TRUE GROUP BY entity_name HAVING count(*) > 1", columns=("entity_name", "max(updated_at) AS newest")
)
"""The entities with several quotas, and the newest time of each."""


def days_to_keep(wishes: Sequence[str]) -> dict[str, int]:
    """Return the retention of each table in days, with the overrides `wishes` (`TABLE=DAYS`). 0 keeps rows forever.

    Raises:
        TableError: If an override is malformed, repeated, or shorter than views and commands need.

    Examples:
        >>> days_to_keep(["throttle_decisions=30"])["throttle_decisions"]
        30
    """
    days = {name: spec.keep_days for name, spec in TABLES.items()}
    wished = set[str]()
    for wish in wishes:
        name, _, number = wish.partition("=")
        spec = TABLES.get(name)
        if spec is None or not spec.time_column:
            those = ", ".join(name for name, spec in TABLES.items() if spec.time_column)
            msg = f"--retention {wish}: {name!r} is not a table with a retention. Choose from {those}"
            raise TableError(msg)
        if not number.isdecimal():
            msg = f"--retention {wish}: {number!r} is not a number of days. Write {name}=30, or {name}=0 for no limit"
            raise TableError(msg)
        if 0 < int(number) < spec.least_days:
            msg = f"--retention {wish}: views need {name} for {spec.least_days} days. Give more, or 0 for no limit"
            raise TableError(msg)
        if name in wished:
            msg = f"--retention names {name} twice, and only one number would count: give it once"
            raise TableError(msg)
        wished.add(name)
        days[name] = int(number)
    return days


def keep_from(now: datetime, days: int) -> datetime | None:
    """Return the time before which rows expire; None if rows never expire.

    The time is a midnight in UTC, so that files are rewritten at most once a day.

    Examples:
        >>> keep_from(datetime(2026, 3, 10, 15, tzinfo=timezone.utc), 2).isoformat()
        '2026-03-08T00:00:00+00:00'
    """
    if not days:
        return None
    try:
        before = now.astimezone(timezone.utc) - timedelta(days=days)
    except OverflowError:
        return None
    return before.replace(hour=0, minute=0, second=0, microsecond=0)


def old_rows(spec: TableSpec, before: datetime) -> RowFilter:
    """Return a table's rows before a time. Rows without a time stay."""
    condition = f"{spec.time_column} < :before"
    # An old row stays if it may be in force, because its throttle or hold ends later.
    for column in {"throttled_until", "until"} & set(spec.schema.names):
        condition += f" AND ({column} IS NULL OR {column} < :before)"
    return RowFilter(condition, {"before": before})


def replaced_quotas(several: Sequence[Row]) -> RowFilter | None:
    """Return the superseded quotas of the rows of `SEVERAL_ROWS`; None without such rows."""
    parts: list[str] = []
    values: dict[str, str | datetime] = {}
    for number, row in enumerate(several):
        whose = "entity_name IS NULL" if row["entity_name"] is None else f"entity_name = :name{number}"
        parts.append(f"({whose} AND updated_at < :at{number})")
        values |= {f"at{number}": row["newest"]}
        values |= {} if row["entity_name"] is None else {f"name{number}": row["entity_name"]}
    return RowFilter(" OR ".join(parts), values) if parts else None

"""Finds expired rows with SQL that both `deltalake` and Databricks run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from tables.errors import TableError
from tables.schema.ddl import with_literals
from tables.schema.specs import TABLES, TableSpec

_SEVERAL = """
SELECT entity_name, max(updated_at) AS newest FROM {table} GROUP BY entity_name HAVING count(*) > 1
"""
_COUNT = "SELECT count(*) AS row_count FROM {table} WHERE {condition}"


@dataclass(frozen=True)
class OldRows:
    """A condition that selects rows to delete.

    Attributes:
        condition: SQL condition with `:name` markers.
        values: Values of the markers: strings and aware datetimes.
    """

    condition: str
    values: Mapping[str, object] = field(default_factory=dict)

    def as_text(self, literal: Callable[[object], str]) -> str:
        """Return the condition with literals (made by `literal`), because some engines take no parameters in DELETE.

        Examples:
            >>> from tables.schema.ddl import deltalake_literal
            >>> OldRows("name = :name", {"name": "o'neill"}).as_text(deltalake_literal)
            "name = 'o''neill'"
        """
        return with_literals(self.condition, self.values, literal)


def days_to_keep(wishes: Sequence[str]) -> dict[str, int]:
    """Return the retention of each table in days, with the overrides `wishes` (`TABLE=DAYS`). 0 keeps rows forever.

    Raises:
        TableError: If an override is malformed, or shorter than views and commands need.

    Examples:
        >>> days_to_keep(["throttle_decisions=30"])["throttle_decisions"]
        30
    """
    days = {name: spec.keep_days for name, spec in TABLES.items()}
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
        days[name] = int(number)
    return days


@dataclass(frozen=True)
class Asker:
    """A finder of a table's expired rows.

    Attributes:
        ask: Runs a SELECT.
        literal: Returns a value as a literal of the engine's dialect.
    """

    table: str
    ask: Callable[[str], list[dict[str, Any]]]
    literal: Callable[[object], str]

    def expired(self, spec: TableSpec, days: Mapping[str, int], now: datetime) -> OldRows | None:
        """Return the condition for a table's expired rows; None if no row can have expired."""
        if spec.name == "producer_id_quotas":
            several = self.ask(_SEVERAL.format(table=self.table).strip())
            return replaced_quotas({row["entity_name"]: row["newest"] for row in several})
        before = keep_from(now, days[spec.name]) if spec.time_column else None
        if before is None:
            return None
        return old_rows(spec, before)

    def count(self, rows: OldRows) -> int:
        """Return how many rows a condition selects."""
        (counted,) = self.ask(_COUNT.format(table=self.table, condition=rows.as_text(self.literal)))
        return int(counted["row_count"])


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


def old_rows(spec: TableSpec, before: datetime) -> OldRows:
    """Return the condition for a table's rows before a time. Rows without a time stay."""
    condition = f"{spec.time_column} < :before"
    # An old row stays if it may be in force, because its throttle or hold ends later.
    for column in {"throttled_until", "until"} & set(spec.schema.names):
        condition += f" AND ({column} IS NULL OR {column} < :before)"
    return OldRows(condition, {"before": before})


def replaced_quotas(newest: Mapping[str | None, datetime]) -> OldRows | None:
    """Return the condition for superseded quotas. `newest` has the newest time of each entity with several rows."""
    parts: list[str] = []
    values: dict[str, object] = {}
    for number, (name, updated_at) in enumerate(newest.items()):
        if name is None:
            parts.append(f"(entity_name IS NULL AND updated_at < :at{number})")
        else:
            parts.append(f"(entity_name = :name{number} AND updated_at < :at{number})")
            values[f"name{number}"] = name
        values[f"at{number}"] = updated_at
    return OldRows(" OR ".join(parts), values) if parts else None

"""Which rows of a table are old enough to be deleted: conditions in SQL, for deltalake and for Databricks."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from tables.errors import TableError
from tables.specs import TABLES, TableSpec

CLOSED = ("restored", "relinquished", "failed")
"""A lease with a row of such a state is over."""

_MARKER = re.compile(r":(\w+)")


@dataclass(frozen=True)
class OldRows:
    """A condition on rows.

    Attributes:
        condition: In SQL, with markers `:name` for values.
        values: By name; texts and aware times.
    """

    condition: str
    values: Mapping[str, object] = field(default_factory=dict)

    def as_text(self, literal: Callable[[object], str]) -> str:
        """Return the condition with its values in it: statements that delete take no parameters everywhere.

        Args:
            literal: Writes a value in the dialect that is wanted.

        Examples:
            >>> OldRows("name = :name", {"name": "o'neill"}).as_text(deltalake_literal)
            "name = 'o''neill'"
        """
        return _MARKER.sub(lambda marker: literal(self.values[marker[1]]), self.condition)


@dataclass(frozen=True)
class LeaseAge:
    """When a lease was last written about, and whether it is over."""

    lease_id: str
    newest: datetime
    closed: bool


def days_to_keep(wishes: Sequence[str]) -> dict[str, int]:
    """Return how many days each table keeps its rows; 0 is for ever.

    Args:
        wishes: `TABLE=DAYS` where the default is not wanted.

    Raises:
        TableError: If a wish is no such thing, or would delete what views and commands still need.

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
            msg = f"--retention {wish}: {name!r} is no table whose rows grow old. There are {those}"
            raise TableError(msg)
        if not number.isdecimal():
            msg = f"--retention {wish}: {number!r} is no number of days. Write {name}=30, say; 0 is for ever"
            raise TableError(msg)
        if 0 < int(number) < spec.least_days:
            msg = f"--retention {wish}: {name} is needed for {spec.least_days} days. Keep it so long, or for ever (0)"
            raise TableError(msg)
        days[name] = int(number)
    return days


def keep_from(now: datetime, days: int) -> datetime | None:
    """Return the time before which rows go, None if they stay for ever.

    It is a midnight (UTC): so large files are rewritten once a day, not in each run.

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


def old_rows(spec: TableSpec, before: datetime, leases: Iterable[LeaseAge] = ()) -> OldRows:
    """Return the condition for rows of a table that are older than a time. Rows without a time stay.

    Args:
        spec: Of the table, which has a `time_column`.
        before: What is older goes.
        leases: All leases, where the table is that of the enforcer: one that is open, or was written about since,
            stays whole.
    """
    condition = f"{spec.time_column} < :before"
    values: dict[str, object] = {"before": before}
    # What may still be in force stays however old it is: a throttle of a tiny quota, an order to leave alone.
    for column in {"throttled_until", "until"} & set(spec.schema.names):
        condition += f" AND ({column} IS NULL OR {column} < :before)"
    kept = [lease.lease_id for lease in leases if not lease.closed or lease.newest >= before]
    if kept:
        names = {f"lease{number}": lease_id for number, lease_id in enumerate(kept)}
        condition += f" AND (lease_id IS NULL OR lease_id NOT IN ({', '.join(f':{name}' for name in names)}))"
        values |= names
    return OldRows(condition, values)


def replaced_quotas(newest: Mapping[str | None, datetime]) -> OldRows | None:
    """Return the condition for quotas of which there are newer ones.

    Args:
        newest: When the newest row was written of each entity that has several; None is the default.
    """
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


def deltalake_literal(value: object) -> str:
    """Return a text or an aware time as deltalake takes it."""
    text = value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"

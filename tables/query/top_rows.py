"""Reads the rows of `pid-quota top`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tables.errors import TableNotFoundError
from tables.query.churn_clients import diagnosis_of
from tables.query.sql_query import query
from tables.store.open import open_store
from tables.store.values import StreamSettings

# The query filters rows by time first, so older rows cost nothing.
_PRINCIPALS = """
SELECT coalesce(latest.principal, throttles.principal) AS principal,
    latest.new_pids_window, latest.quota, latest.burst, latest.tokens, latest.active_pids, latest.phase,
    latest.saturated, latest.as_of, coalesce(latest.refused, 0) AS refused_pids, throttles.throttled_until,
    throttles.hold
FROM (
    SELECT *, row_number() OVER (PARTITION BY principal ORDER BY window_end DESC) AS newest,
        CAST(sum(refused_pids) OVER (PARTITION BY principal) AS BIGINT) AS refused
    FROM principal_metrics
    WHERE window_end > :since
) AS latest
FULL OUTER JOIN (SELECT * FROM current_throttles WHERE throttled_now) AS throttles
    ON throttles.principal = latest.principal
WHERE latest.newest = 1 OR latest.newest IS NULL
"""
_CHURN = "SELECT * FROM principal_churn ORDER BY new_pids"


@dataclass(frozen=True)
class TopRow:
    """A principal's present state.

    Attributes:
        new_pids: New producer ids in the last window, including refused producer ids.
        quota: New producer ids per window; None without a quota.
        burst: New producer ids that a full bucket admits at once.
        throttled_until: End of the throttle in force; None without a throttle.
        hold: What the view `hold_status` calls it, such as `held`; None without a throttle in force or a hold.
        refused_pids: Producer ids refused in the last window.
        active_pids: Known producer ids.
        phase: `learning` or `enforcing`.
        saturated: Whether the ledger's filter is full.
        diagnosis: Kind of churn that `pid-quota why` names; empty if unknown.
    """

    principal: str
    new_pids: int
    quota: float | None
    burst: float | None
    tokens: float | None
    throttled_until: datetime | None
    refused_pids: int
    active_pids: int
    phase: str
    saturated: bool
    hold: str | None = None
    diagnosis: str = ""

    def diagnosed(self, diagnoses: Mapping[str, str]) -> "TopRow":
        """Return the row with the principal's diagnosis."""
        return replace(self, diagnosis=diagnoses.get(self.principal, ""))

    @property
    def used_share(self) -> float:
        """New producer ids as a share of the quota or the burst, whichever is greater."""
        return self.new_pids / max(self.quota, self.burst or 0.0) if self.quota else 0.0


SORTS: dict[str, Callable[[TopRow], Any]] = {
    "used": lambda row: (row.throttled_until is None, -row.used_share, -row.new_pids),
    "new": lambda row: -row.new_pids,
    "refused": lambda row: -row.refused_pids,
    "active": lambda row: -row.active_pids,
    "tokens": lambda row: (row.tokens is None, row.tokens),
    "name": lambda row: row.principal.lower(),
}
"""Sort keys by name; `used` puts throttled principals first."""


def arranged(rows: Sequence[TopRow], sort: str) -> list[TopRow]:
    """Return the rows, sorted by a key of `SORTS`."""
    return sorted(rows, key=lambda row: (SORTS[sort](row), row.principal))


def read_rows(tables: str, now: datetime) -> list[TopRow]:
    """Read the principals with metrics in the last window or a throttle in force.

    Raises:
        TableError: If a table is missing or can't be read.
        QueryError: If the tables lack a column.
    """
    with open_store(tables) as store:
        settings = store.settings()
        since = now - timedelta(seconds=settings.window_seconds)
        found = store.query(_PRINCIPALS, now, {"since": since}).records()
    return [_row(record, now, settings) for record in found]


def read_diagnoses(tables: str, now: datetime) -> dict[str, str]:
    """Return, by principal, the kind of churn of the client with the most new producer ids."""
    try:
        rows = query(tables, _CHURN, now).records()
    except TableNotFoundError:
        return {}
    return {row["principal"]: diagnosis_of(row).kind.value for row in rows}


def _row(record: dict[str, Any], now: datetime, settings: StreamSettings) -> TopRow:
    """Return a row whose tokens are refilled until now, because a principal without events writes no metrics."""
    tokens, quota, burst, as_of = record["tokens"], record["quota"], record["burst"], record["as_of"]
    if tokens is not None and quota is not None:
        silent_s = max(0.0, (now - as_of).total_seconds())
        tokens = min(record["burst"] or quota, tokens + quota * silent_s / settings.window_seconds)
    return TopRow(
        record["principal"],
        record["new_pids_window"] or 0,
        quota,
        burst,
        tokens,
        record["throttled_until"],
        record["refused_pids"],
        record["active_pids"] or 0,
        record["phase"] or "",
        bool(record["saturated"]),
        record["hold"],
    )

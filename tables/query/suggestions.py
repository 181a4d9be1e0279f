"""Suggests a quota per user from new producer ids per window and diagnoses of clients."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from lifecycle.churn import Diagnosis, diagnosis_text
from quota.allowance import Allowance
from quota.principals import NEVER_ENFORCED, entity_name
from tables.errors import TableNotFoundError
from tables.query.churn_clients import diagnosis_of
from tables.query.sql_query import query
from tables.query.suggested_quota import (
    AT_LEAST,
    HEADROOM,
    rounded_up,
    suggested_burst,
    suggested_rate,
    windows_with_peaks_once,
)
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import quotas_in_force

HISTORY = "SELECT principal, window_number, new_pids FROM new_pids_per_window WHERE new_pids > 0 AND NOT learning"
CLIENTS = "SELECT * FROM principal_churn ORDER BY new_pids DESC"
_USER = "User:"


@dataclass(frozen=True)
class Suggestion:
    """A quota for a principal.

    Attributes:
        windows: Number of windows with new PIDs.
        most_pids: New PIDs in the busiest window.
        now: Quota in force; None without a quota.
        allowance: Suggested quota, always with a burst.
        looks_like: Diagnosis of clients that need a fix; None without such clients.
        once_mended: Quota that suffices after the fix, or None.
    """

    principal: str
    windows: int
    most_pids: int
    now: Allowance | None
    allowance: Allowance
    looks_like: str | None = None
    once_mended: float | None = None


def suggestions(tables: str) -> list[Suggestion]:
    """Suggest a quota for each user with new PIDs in the tables. The greatest quota comes first.

    Raises:
        TableError: If the tables can't be read.
        CatalogError: If a catalog rejects the query.
    """
    rows = query(tables, HISTORY, datetime.now(timezone.utc)).rows
    return suggest(history_of(rows), quotas_now(tables), _clients(tables))


def history_of(rows: Iterable[tuple[Any, ...]]) -> dict[str, dict[int, int]]:
    """Return new PIDs by user and window number, from rows of principal, window number and new PIDs."""
    history: dict[str, dict[int, int]] = {}
    for principal, window_number, new_pids in rows:
        if principal.startswith(_USER) and principal not in NEVER_ENFORCED:
            history.setdefault(principal, {})[window_number] = new_pids
    return history


def suggest(
    history: Mapping[str, Mapping[int, int]],
    now: Mapping[str | None, Allowance],
    clients: Iterable[Mapping[str, Any]],
) -> list[Suggestion]:
    """Suggest a quota for each user. The greatest quota comes first.

    `history` has new PIDs by principal and window number. `now` has the quotas in force by user name, with the key None
    for the default quota. `clients` are rows of the view `principal_churn`, the most new PIDs first.
    """
    ills = _ills(clients)
    found = []
    for principal, counts in history.items():
        ill, windows = ills.get(principal), list(counts.values())
        usual = windows_with_peaks_once(counts)
        rate = suggested_rate(usual)
        found.append(
            Suggestion(
                principal,
                len(windows),
                max(windows),
                now.get(entity_name(principal), now.get(None)),
                # Peaks of clients that need a fix don't justify a burst, but peaks of a deploy do.
                Allowance(rate, suggested_burst(counts, rate) if ill is None or ill.may_be_deploys else rate),
                None if ill is None else ill.looks_like,
                None if ill is None else max(AT_LEAST, rounded_up(ill.processes * HEADROOM)),
            )
        )
    return sorted(found, key=lambda each: (-each.allowance.producer_ids_rate, each.principal))


def as_entries(found: Sequence[Suggestion]) -> list[QuotaEntry]:
    """Return suggestions as quotas."""
    now = datetime.now(timezone.utc)
    return [QuotaEntry.from_allowance(entity_name(each.principal), each.allowance, now, "suggested") for each in found]


def quotas_now(tables: str) -> dict[str | None, Allowance]:
    """Return the quotas in force by user name. The key None is the default quota."""
    try:
        return {entry.entity_name: entry.allowance for entry in quotas_in_force(tables)}
    except TableNotFoundError:
        return {}


@dataclass(frozen=True)
class _Ill:
    """The diagnosis of a principal whose client needs or may need a fix.

    Attributes:
        may_be_deploys: Whether a harmless cause, such as a deploy, is possible, too.
        processes: Estimated number of processes.
    """

    looks_like: str
    may_be_deploys: bool
    processes: int


def _clients(tables: str) -> list[dict[str, Any]]:
    try:
        return query(tables, CLIENTS, datetime.now(timezone.utc)).records()
    except TableNotFoundError:
        # No plugin has seen requests for producer ids.
        return []


def _ills(rows: Iterable[Mapping[str, Any]]) -> dict[str, _Ill]:
    clients: dict[str, list[tuple[Mapping[str, Any], Diagnosis]]] = {}
    for row in rows:
        clients.setdefault(row["principal"], []).append((row, diagnosis_of(row)))
    return {
        principal: _Ill(
            diagnosis_text(ill), ill.may_be_harmless, sum(_processes(row, diagnosis) for row, diagnosis in mine)
        )
        for principal, mine in clients.items()
        # The clients with the most new producer ids come first, so the first harmful diagnosis counts.
        if (ill := next((diagnosis for _, diagnosis in mine if not diagnosis.is_harmless), None)) is not None
    }


def _processes(row: Mapping[str, Any], diagnosis: Diagnosis) -> int:
    """Estimate the number of a client's processes.

    The estimate is the number of addresses or, if a roll-out is possible, of new ids per step in `row`, whichever is
    greater.
    """
    new_pids, steps, hosts = int(row["new_pids"]), int(row["steps"]), int(row["hosts"])
    return max(1, hosts, -(-new_pids // max(1, steps)) if diagnosis.may_be_harmless else 0)

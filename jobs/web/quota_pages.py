"""The console's page of quotas: in force, suggested, and what a change would have refused."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from jobs.web import queries as web_sql
from jobs.web.pages import ConsoleData
from quota.principals import entity_name
from quota.suggestion import Excess, excess
from tables.errors import TableNotFoundError
from tables.query.relations import Relations, RowFilter, opened
from tables.query.suggestions import Suggestion, history_of, suggest
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import judged_quotas

HISTORY_DAYS = 7
_LISTED = 2_000


def quotas(data: ConsoleData, now: datetime) -> dict[str, Any]:
    """Return each user's quota in force, the suggested one, and what both would have refused in a week."""
    entries, faults = _in_force(data.tables)
    rates = {entry.entity_name: entry.producer_ids_rate for entry in entries}
    with opened(data.tables, now, data.config, _week(now)) as relations:
        history = _history(relations)
        found = suggest(history, rates, relations.ask(web_sql.CLIENTS).records())
        suggested = {entity_name(each.principal): each for each in found}
        by_name = {entity_name(principal): counts for principal, counts in history.items()}
        names = sorted({name for name in (*rates, *suggested) if name is not None})
        own = {entry.entity_name: entry for entry in entries}
        rows = [
            _row(name, own.get(name), rates.get(None), suggested.get(name), by_name.get(name, [])) for name in names
        ]
        page = {
            "default": None if None not in own else asdict(own[None]),
            "default_excess": asdict(_excess(by_name, rates, None, rates.get(None))),
            "quotas": rows[:_LISTED],
            "complete": len(rows) <= _LISTED,
            "faults": faults,
            "days": HISTORY_DAYS,
        }
    return data.framed(now, relations, page)


def what_if(data: ConsoleData, now: datetime, name: str | None, rate: float | None) -> dict[str, Any]:
    """Return what a quota would have refused in a week, and what the one in force would have.

    Args:
        data: Reads the tables.
        now: The present.
        name: User name; None for the default.
        rate: The quota; None if it is deleted.
    """
    entries, _ = _in_force(data.tables)
    rates = {entry.entity_name: entry.producer_ids_rate for entry in entries}
    with opened(data.tables, now, data.config, _week(now)) as relations:
        by_name = {entity_name(principal): counts for principal, counts in _history(relations).items()}
    then = {key: value for key, value in rates.items() if key != name} | ({} if rate is None else {name: rate})
    return {
        "entity_name": name,
        "rate": rate,
        "now": asdict(_excess(by_name, rates, name, rates.get(name, rates.get(None)))),
        "then": asdict(_excess(by_name, then, name, then.get(name, then.get(None)))),
        "users": sum(1 for each in by_name if each not in rates) if name is None else int(name in by_name),
        "days": HISTORY_DAYS,
    }


def _in_force(tables: str) -> tuple[list[QuotaEntry], list[str]]:
    try:
        return judged_quotas(tables)
    except TableNotFoundError:
        return [], []


def _week(now: datetime) -> dict[str, RowFilter]:
    since, early = now - timedelta(days=HISTORY_DAYS), now - timedelta(days=2)
    return {
        "producer_id_metrics": RowFilter("window_end > :since", {"since": since}, newer_than=("window_end", since)),
        "producer_inits": RowFilter("answered_at > :early", {"early": early}, newer_than=("answered_at", early)),
    }


def _history(relations: Relations) -> dict[str, list[int]]:
    return history_of(relations.ask(web_sql.NEW_PIDS).rows)


def _excess(
    by_name: Mapping[str, list[int]], rates: Mapping[str | None, float], name: str | None, rate: float | None
) -> Excess:
    """Sum what lies beyond a quota: of one user, or of all whom the default covers."""
    whose = [name] if name is not None else [each for each in by_name if each not in rates]
    counts = [count for each in whose for count in by_name.get(each, ())]
    # Without a quota nothing is refused.
    return excess(counts, float("inf") if rate is None else rate)


def _row(
    name: str | None,
    own: QuotaEntry | None,
    default: float | None,
    suggestion: Suggestion | None,
    counts: list[int],
) -> dict[str, Any]:
    rate = default if own is None else own.producer_ids_rate
    suggested = None if suggestion is None else suggestion.producer_ids_rate
    return {
        "entity_name": name,
        "own_rate": None if own is None else own.producer_ids_rate,
        "rate": rate,
        "updated_at": None if own is None else own.updated_at,
        "updated_by": None if own is None else own.updated_by,
        "most_pids": max(counts, default=None),
        "windows": len(counts),
        "pids_over": None if not counts or rate is None else excess(counts, rate).pids_over,
        "suggested": suggested,
        "suggested_over": None if suggested is None else excess(counts, suggested).pids_over,
        "looks_like": None if suggestion is None else suggestion.looks_like,
        "once_mended": None if suggestion is None else suggestion.once_mended,
    }

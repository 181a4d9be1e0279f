"""The console's page of quotas in force, suggested quotas, and what a change would have refused."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from jobs.web import queries as web_sql
from jobs.web.pages import ConsoleData, later_than, present_holds
from quota.allowance import Allowance
from quota.principals import entity_name
from quota.suggestion import Excess, excess
from tables.errors import TableNotFoundError
from tables.query.suggestions import Suggestion, history_of, suggest
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import validated_quotas
from tables.store.values import RowFilter

HISTORY_DAYS = 7
_LISTED = 2_000


def quotas(data: ConsoleData, now: datetime) -> dict[str, Any]:
    """Return each user's quota in force and suggested quota, and what both would have refused in the last week."""
    entries, faults = _in_force(data.tables)
    quotas_now = {entry.entity_name: entry.allowance for entry in entries}
    with data.opened(now, _week(now)) as relations:
        history = history_of(relations.ask(web_sql.NEW_PIDS).rows)
        found = suggest(history, quotas_now, relations.ask(web_sql.CLIENTS).records())
        suggested = {entity_name(each.principal): each for each in found}
        by_name = {entity_name(principal): counts for principal, counts in history.items()}
        names = sorted({name for name in (*quotas_now, *suggested) if name is not None})
        own = {entry.entity_name: entry for entry in entries}
        rows = [
            _row(name, own.get(name), quotas_now.get(None), suggested.get(name), by_name.get(name, {}))
            for name in names
        ]
        page = {
            "default": None if None not in own else asdict(own[None]),
            "default_excess": asdict(_excess(by_name, quotas_now, None, quotas_now.get(None))),
            "quotas": rows[:_LISTED],
            "complete": len(rows) <= _LISTED,
            "faults": faults,
            "days": HISTORY_DAYS,
        }
        return data.framed(now, relations, page)


def what_if(data: ConsoleData, now: datetime, name: str | None, allowance: Allowance | None) -> dict[str, Any]:
    """Return what the quota `allowance` and the quota in force would have refused in the last week."""
    entries, _ = _in_force(data.tables)
    quotas_now = {entry.entity_name: entry.allowance for entry in entries}
    with data.opened(now, _week(now)) as relations:
        history = history_of(relations.ask(web_sql.NEW_PIDS).rows)
    by_name = {entity_name(principal): counts for principal, counts in history.items()}
    then = {key: value for key, value in quotas_now.items() if key != name}
    then |= {} if allowance is None else {name: allowance}
    return {
        "entity_name": name,
        "rate": allowance and allowance.producer_ids_rate,
        "burst": allowance and allowance.producer_ids_burst,
        "now": asdict(_excess(by_name, quotas_now, name, quotas_now.get(name, quotas_now.get(None)))),
        "then": asdict(_excess(by_name, then, name, then.get(name, then.get(None)))),
        "users": sum(1 for each in by_name if each not in quotas_now) if name is None else int(name in by_name),
        "days": HISTORY_DAYS,
    }


def _in_force(tables: str) -> tuple[list[QuotaEntry], list[str]]:
    try:
        return validated_quotas(tables)
    except TableNotFoundError:
        return [], []


def _week(now: datetime) -> dict[str, RowFilter]:
    return {
        "producer_id_metrics": later_than("window_end", now - timedelta(days=HISTORY_DAYS)),
        "producer_inits": later_than("answered_at", now - timedelta(days=2)),
        **present_holds(now),
    }


def _excess(
    by_name: Mapping[str, Mapping[int, int]],
    quotas_now: Mapping[str | None, Allowance],
    name: str | None,
    allowance: Allowance | None,
) -> Excess:
    whose = [name] if name is not None else [each for each in by_name if each not in quotas_now]
    found = [excess(by_name.get(each, {}), allowance) for each in whose]
    return Excess(*(sum(getattr(each, name) for each in found) for name in Excess.__dataclass_fields__))


def _row(
    name: str | None,
    own: QuotaEntry | None,
    default: Allowance | None,
    suggestion: Suggestion | None,
    counts: Mapping[int, int],
) -> dict[str, Any]:
    now = default if own is None else own.allowance
    suggested = None if suggestion is None else suggestion.allowance
    return {
        "entity_name": name,
        "own_rate": own and own.producer_ids_rate,
        "own_burst": own and own.producer_ids_burst,
        "rate": now and now.producer_ids_rate,
        "burst": now and now.producer_ids_burst,
        "updated_at": None if own is None else own.updated_at,
        "updated_by": None if own is None else own.updated_by,
        "most_pids": max(counts.values(), default=None),
        "windows": len(counts),
        "pids_over": None if not counts or now is None else excess(counts, now).pids_over,
        "suggested": suggested and suggested.producer_ids_rate,
        "suggested_burst": suggested and suggested.producer_ids_burst,
        "suggested_over": None if suggested is None else excess(counts, suggested).pids_over,
        "looks_like": None if suggestion is None else suggestion.looks_like,
        "once_mended": None if suggestion is None else suggestion.once_mended,
    }

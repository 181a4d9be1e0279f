"""The console's page of quotas in force and suggested quotas, with the commands that change them."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from jobs.output.shell_commands import delete_quota, set_quota
from jobs.web.pages import ConsoleData
from jobs.web.row_filters import later_than, present_holds
from quota.allowance import Allowance
from quota.principals import entity_name
from tables.errors import TableNotFoundError
from tables.query.suggested_quota import excess
from tables.query.suggestions import CLIENTS, HISTORY, Suggestion, history_of, suggest
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import validated_quotas

HISTORY_DAYS = 7
_LISTED = 2_000
_EXAMPLE = Allowance(50)
"""The quota of a command whose number the reader replaces."""


def quotas(data: ConsoleData, now: datetime) -> dict[str, Any]:
    """Return each user's quota in force and suggested quota, and what both would have refused in the last week."""
    try:
        entries, faults = validated_quotas(data.tables)
    except TableNotFoundError:
        entries, faults = [], []
    own = {entry.entity_name: entry for entry in entries}
    quotas_now = {entry.entity_name: entry.allowance for entry in entries}
    rows_wanted = {
        "producer_id_metrics": later_than("window_end", now - timedelta(days=HISTORY_DAYS)),
        "producer_inits": later_than("answered_at", now - timedelta(days=2)),
        **present_holds(now),
    }
    with data.opened(now, rows_wanted) as relations:
        history = history_of(relations.ask(HISTORY).rows)
        found = suggest(history, quotas_now, relations.ask(CLIENTS).records())
        suggested = {entity_name(each.principal): each for each in found}
        by_name = {entity_name(principal): counts for principal, counts in history.items()}
        names = sorted({name for name in (*quotas_now, *suggested) if name is not None})
        default = quotas_now.get(None)
        of_default = [excess(counts, default) for name, counts in by_name.items() if name not in quotas_now]
        rows = [
            _row(name, own.get(name), default, suggested.get(name), by_name.get(name, {}))
            | _commands(data.tables, name, own.get(name), suggested.get(name), default)
            for name in names[:_LISTED]
        ]
        page = {
            "default": None if None not in own else asdict(own[None]),
            "default_over": sum(each.pids_over for each in of_default),
            "default_commands": _commands(data.tables, None, own.get(None), None, default),
            "another_command": set_quota(data.tables, "NAME", _EXAMPLE),
            "quotas": rows,
            "complete": len(names) <= _LISTED,
            "faults": faults,
            "days": HISTORY_DAYS,
        }
        return data.framed(now, relations, page)


def _commands(
    tables: str, name: str | None, own: QuotaEntry | None, suggestion: Suggestion | None, default: Allowance | None
) -> dict[str, Any]:
    """Return the command that sets the suggested quota, else the one in force, and the one that deletes the quota."""
    now = default if own is None else own.allowance
    wanted = now if suggestion is None else suggestion.allowance
    return {
        "set_command": set_quota(tables, name, wanted or _EXAMPLE),
        "delete_command": None if own is None else delete_quota(tables, name),
    }


def _row(
    name: str,
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

"""The command `pid-quota decisions`."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import typer

from jobs.follow.lines import FollowOption, SinceOption, emit, start
from jobs.options import JsonOption, PrincipalOption, TablesOption, full_name
from jobs.output.hold_text import hold_text
from jobs.output.human import human, plural, time_of
from jobs.output.terminal import one_line
from jobs.services.stopping import until_interrupted
from tables.errors import TablesError
from tables.query.principal_hold import holds_of
from tables.query.sql_query import query
from tables.query.throttle_causes import looks_like
from tables.store.base import TableStore
from tables.store.open import open_store
from tables.store.values import RowFilter

_TABLE, _EARLIEST, _LATE = "throttle_decisions", datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(hours=1)
_NEWEST = "SELECT max(as_of) AS newest FROM producer_id_metrics"


def decisions(
    tables: TablesOption,
    follow: FollowOption = False,
    since: SinceOption = None,
    principal: PrincipalOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Interval between reads of the table. [default: 1; 30 for a catalog]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show throttle decisions, one per line: who is throttled, until when, whether brokers hold it, who is released."""
    begin = start(since, datetime.now(timezone.utc), follow=follow)
    wanted = principal and full_name(principal)
    with until_interrupted(), open_store(tables) as store:
        newest = _NewDecisions(store)
        while True:
            rows = newest.read(begin)
            found = [row for row in rows if wanted is None or row["principal"] == wanted]
            now = datetime.now(timezone.utc)
            causes = looks_like(tables, {row["principal"] for row in found if _is_new_throttle(row, now)}, now)
            # Only a principal's newest decision can be in force.
            last = {row["principal"]: row for row in found}
            in_force = {name for name, row in last.items() if _is_in_force(row, now)}
            holds = holds_of(tables, in_force, now)
            for row in found:
                cause = causes.get(row["principal"]) if _is_new_throttle(row, now) else None
                hold = holds.get(row["principal"]) if last[row["principal"]] is row else None
                more = {"looks_like": cause, "hold": hold and hold["hold"]}
                emit(_line(row, cause, hold), row | more, as_json=as_json)
            if not follow:
                if not found and begin is not None:
                    print(one_line(_nothing(tables, wanted, begin)), file=sys.stderr)
                return
            time.sleep(seconds or store.poll_seconds)


@dataclass
class _NewDecisions:
    """The decisions of a store, each once."""

    store: TableStore
    _from: datetime | None = None
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def read(self, since: datetime | None) -> list[dict[str, Any]]:
        """Return unseen decisions of `since` or later. If `since` is None, the first call returns none.

        A decision that is an hour older than the newest seen one is missed.
        """
        begin = since if self._from is None else self._from
        if begin is None:
            (row,) = self.store.read(_TABLE, RowFilter(columns=("max(decided_at) AS newest",)))
            begin = (row["newest"] or _EARLIEST + _LATE) - _LATE
        rows = self.store.read(_TABLE, RowFilter("decided_at >= :since ORDER BY decided_at", {"since": begin}))
        fresh = [row for row in rows if (row["decision_id"], row["action"]) not in self._seen]
        self._seen.update((row["decision_id"], row["action"]) for row in fresh)
        is_first, self._from = self._from is None, max([begin, *(row["decided_at"] - _LATE for row in rows)])
        return [] if is_first and since is None else fresh


def _nothing(tables: str, principal: str | None, begin: datetime) -> str:
    text = f"no decisions{'' if principal is None else f' on {principal}'} since {time_of(begin)}"
    try:
        ((newest,),) = query(tables, _NEWEST, datetime.now(timezone.utc)).rows
    except TablesError:
        # The user may have no right to read the metrics.
        return text
    if newest is not None and newest >= begin:
        return text
    return f"{text}; no rows of the stream {'at all' if newest is None else f'since {time_of(newest)}'}: does it run?"


def _is_new_throttle(row: dict[str, Any], now: datetime) -> bool:
    """Return whether a row is a throttle of the last hour. Recent requests do not explain an older throttle."""
    at = row["decided_at"]
    return row["action"] == "THROTTLE" and at is not None and now - at < timedelta(hours=1)


def _is_in_force(row: Mapping[str, Any], now: datetime) -> bool:
    return row["action"] == "THROTTLE" and row["throttled_until"] is not None and row["throttled_until"] > now


def _line(row: dict[str, Any], cause: str | None, hold: Mapping[str, Any] | None) -> str:
    at, until = row["decided_at"], row["throttled_until"]
    parts = ["-" if at is None else time_of(at), human(row["action"]), human(row["principal"])]
    if row["action"] == "THROTTLE":
        quota = "no quota" if row["quota"] is None else f"quota {human(row['quota'])} ({row['quota_source']})"
        parts += [f"until {human(until)}", f"{plural(row['refused_pids'] or 0, 'PID')} refused", quota]
        parts += [f"clients: {human(dict(row['client_ids']))}"] if row["client_ids"] else []
        parts += [f"addresses: {human(dict(row['addresses']))}"] if row["addresses"] else []
        parts += [f"looks like: {cause}"] if cause else []
        parts += [hold_text(hold)] if hold else []
    if row["reason"] == "quota_changed":
        parts.append("its quota changed")
    return "  ".join(parts)

"""`pid-quota decisions`: shows throttle decisions as they come, one a line."""

import sys
import time
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import typer

from jobs.follow.lines import FollowOption, PrincipalOption, SinceOption, emit, full_name, start, until_interrupted
from jobs.human import human, plural, time_of
from jobs.tables.sql_command import TablesOption
from jobs.tables_out import JsonOption
from jobs.terminal import one_line
from tables.delta import is_catalog
from tables.errors import TablesError
from tables.query.new_rows import new_rows
from tables.query.sql_query import query
from tables.query.throttle_causes import looks_like

_SECONDS, _SECONDS_OF_A_CATALOG = 1.0, 30.0
_NEWEST = "SELECT max(as_of) AS newest FROM producer_id_metrics"


def decisions(
    tables: TablesOption,
    follow: FollowOption = False,
    since: SinceOption = None,
    principal: PrincipalOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Interval between looks at the table. [default: 1; 30 for a catalog, by a query]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show throttle decisions, one a line: who is throttled until when, and who is released."""
    begin = start(since, datetime.now(timezone.utc), follow=follow)
    wanted = full_name(principal)
    pause_s = seconds or (_SECONDS_OF_A_CATALOG if is_catalog(tables) else _SECONDS)
    with until_interrupted(), new_rows(tables, "throttle_decisions", "decided_at", begin) as rows:
        while True:
            found = [row for row in rows.read() if wanted is None or row["principal"] == wanted]
            now = datetime.now(timezone.utc)
            causes = looks_like(tables, {row["principal"] for row in found if _is_new_throttle(row, now)}, now)
            for row in found:
                cause = causes.get(row["principal"]) if _is_new_throttle(row, now) else None
                emit(_line(row, cause), row | {"looks_like": cause}, as_json=as_json)
            if not follow:
                if not found and begin is not None:
                    print(one_line(_nothing(tables, wanted, begin)), file=sys.stderr)
                return
            time.sleep(pause_s)


def _nothing(tables: str, principal: str | None, begin: datetime) -> str:
    """Say that there is no decision, and whether that is because the stream writes no rows."""
    said = f"no decisions{'' if principal is None else f' on {principal}'} since {time_of(begin)}"
    try:
        ((newest,),) = query(tables, _NEWEST, datetime.now(timezone.utc)).rows
    except TablesError:
        # Whoever may read the decisions alone gets them, or that there are none.
        return said
    if newest is not None and newest >= begin:
        return said
    return f"{said}; no rows of the stream {'at all' if newest is None else f'since {time_of(newest)}'}: does it run?"


def _is_new_throttle(row: dict[str, Any], now: datetime) -> bool:
    """Whether a row is a throttle of the last hour: what clients look like now says nothing of an older one."""
    at = row["decided_at"]
    return row["action"] == "THROTTLE" and at is not None and now - at < timedelta(hours=1)


def _line(row: dict[str, Any], cause: str | None) -> str:
    at, until = row["decided_at"], row["throttled_until"]
    parts = ["-" if at is None else time_of(at), human(row["action"]), human(row["principal"])]
    if row["action"] == "THROTTLE":
        quota = "no quota" if row["quota"] is None else f"quota {human(row['quota'])} ({row['quota_source']})"
        parts += [f"until {human(until)}", f"{plural(row['refused_pids'] or 0, 'PID')} refused", quota]
        parts += [f"clients: {human(dict(row['client_ids']))}"] if row["client_ids"] else []
        # Rows of an earlier version have none.
        parts += [f"addresses: {human(dict(row['addresses']))}"] if row.get("addresses") else []
        parts += [f"looks like: {cause}"] if cause else []
    if row.get("broker_id") is not None:
        parts.append(f"broker {row['broker_id']}")
    if row.get("reason") == "quota_changed":
        parts.append("its quota changed")
    return "  ".join(parts)

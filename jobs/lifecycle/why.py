"""`pid-quota why`: why a principal's clients ask for producer ids again and again, and what to do about it."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from jobs.console import output, printable
from jobs.errors import WhyError
from jobs.tables.literals import literal
from jobs.tables.query import query
from jobs.tables.sql import TablesOption
from jobs.tables_out import JsonOption, to_json
from quota.churn import FIXES, MIN_NEW_PIDS, Churn, Fix

_CLIENTS = "SELECT * FROM principal_churn WHERE principal = {principal} ORDER BY new_pids DESC, client"


def why(
    principal: Annotated[str, typer.Argument(help="Such as User:mallory; without a type it is a user.")],
    tables: TablesOption,
    as_json: JsonOption = False,
) -> None:
    """Diagnose each client of a principal: what it does with producers, the evidence, and the fix."""
    name = principal if ":" in principal else f"User:{principal}"
    answer = query(tables, _CLIENTS.format(principal=literal(name, tables)), datetime.now(timezone.utc))
    rows = answer.records()
    if not rows:
        msg = (
            f"{name} asked for no producer id in the last 24 hours, as far as tables {tables} know: "
            f"check the name, and `pid-quota tap status`"
        )
        raise WhyError(msg)
    if as_json:
        clients = [row | {"fix": _fix_dict(fix_of(row))} for row in json.loads(to_json(answer))]
        typer.echo(json.dumps({"principal": name, "clients": clients}, ensure_ascii=False, indent=2))
        return
    output().print(printable(_headline(name, rows[0])))
    for row in rows:
        for line in _report(row):
            output().print(printable(line), soft_wrap=True)


def fix_of(row: Mapping[str, Any]) -> Fix:
    """Return what to do about a row of the view `principal_churn`."""
    return FIXES[Churn(row["kind"])]


def evidence_text(row: Mapping[str, Any]) -> str:
    """Return the evidence of a row in words."""
    parts = [f"{row['new_pids']:,} new producer id{'' if row['new_pids'] == 1 else 's'} in 24 h"]
    if row["new_pids"] >= MIN_NEW_PIDS:
        parts[0] += f" ({row['pids_per_hour']:,.0f} an hour while at it)"
    life = row["median_life_seconds"]
    parts.append("no second one from any address" if life is None else f"median life {_duration(life)}")
    parts.append(f"{row['errors_before_share']:.0%} after an error")
    if row["error_answers"]:
        parts.append(f"{row['error_answers']:,} error answers")
    parts.append(f"{row['hosts']:,} address" + ("" if row["hosts"] == 1 else "es"))
    if row["epoch_bumps"]:
        parts.append(f"{row['epoch_bumps']:,} epochs bumped, which cost no producer id")
    return ", ".join(parts)


def _headline(name: str, row: Mapping[str, Any]) -> str:
    if not row["throttles"]:
        return f"{name}: not throttled in the last 24 hours"
    now = ", throttled now" if row["throttled_now"] else ""
    return f"{name}: {row['throttles']} throttles in the last 24 hours{now}"


def _report(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"client {row['client']}: {row['kind']}"
    yield f"  evidence: {evidence_text(row)}"
    if row["kind"] == Churn.HEALTHY:
        return
    fix = fix_of(row)
    yield f"  fix: {fix.summary}"
    if row["kind"] != Churn.SCALE_OUT:
        yield f"  Java: {fix.java}"
        yield f"  Python: {fix.python}"
        yield f"  librdkafka: {fix.librdkafka}"


def _fix_dict(fix: Fix) -> dict[str, str]:
    return {"summary": fix.summary, "java": fix.java, "python": fix.python, "librdkafka": fix.librdkafka}


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

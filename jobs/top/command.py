"""The command `pid-quota top`."""

import sys
from datetime import datetime, timezone
from typing import Annotated, Literal

import typer

from jobs.options import CsvOption, JsonOption, StaleSeconds, TablesOption, full_name
from jobs.output.json_out import print_json
from jobs.output.staleness import warn_if_stale
from jobs.output.tables_out import Form, form, show
from jobs.output.terminal import output
from jobs.top.screen import detail_view, rows_table, summary
from tables.query.freshness import STALE_AFTER_S
from tables.query.top_rows import Detail, TopRow, arranged, read_detail, read_diagnoses, read_rows
from tables.store.values import Answer

Sort = Literal["used", "new", "refused", "active", "tokens", "name"]


def top(
    tables: TablesOption,
    once: Annotated[
        bool, typer.Option("--once", help="Print the principals once and exit. This is the default without a terminal.")
    ] = False,
    sort: Annotated[Sort, typer.Option(help="Sort order. used: throttled first, then nearest to the quota.")] = (
        "used"
    ),
    text: Annotated[str, typer.Option("--filter", help="Show only principals whose name contains this text.")] = "",
    principal: Annotated[str | None, typer.Option(help="Show this principal in detail, such as User:mallory.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of principals to show.")] = 1000,
    seconds: Annotated[float, typer.Option(min=0.2, help="Interval between reads of the tables.")] = 2.0,
    stale_seconds: StaleSeconds = STALE_AFTER_S,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Show live who makes new producer ids. Keys: s sorts, / filters, Enter shows details, q quits."""
    name = principal and full_name(principal)
    wanted = form(as_json=as_json, as_csv=as_csv)
    if once or wanted != "table" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_once(tables, sort, text, name, limit, wanted, stale_seconds)
        return
    from jobs.top.app import TopApp

    # If the tables can't be read, fail with one line before the screen opens.
    read_rows(tables, _now())
    TopApp(
        tables,
        clock=_now,
        seconds=seconds,
        sort=sort,
        text=text,
        principal=name,
        limit=limit,
        stale_seconds=stale_seconds,
    ).run()


def _print_once(
    tables: str,
    sort: str,
    text: str,
    principal: str | None,
    limit: int,
    wanted: Form,
    stale_seconds: float,
) -> None:
    now, console = _now(), output()
    if principal is not None:
        if wanted == "csv":
            msg = "--principal shows several tables, which do not fit into one CSV: give --json"
            raise typer.BadParameter(msg)
        detail = read_detail(tables, principal, now)
        warn_if_stale(tables, now, stale_seconds)
        if wanted == "json":
            print_json({name: getattr(detail, name) for name in Detail.__dataclass_fields__}, indent=2)
        else:
            console.print(detail_view(detail))
        return
    rows = read_rows(tables, now)
    diagnoses = read_diagnoses(tables, now)
    freshness = warn_if_stale(tables, now, stale_seconds)
    shown = [row.diagnosed(diagnoses) for row in arranged(rows, sort, text)[:limit]]
    if wanted != "table":
        columns = tuple(TopRow.__dataclass_fields__)
        show(Answer(columns, tuple(tuple(getattr(row, name) for name in columns) for row in shown)), wanted)
        return
    console.print(summary(rows, freshness), markup=False)
    console.print(rows_table(shown))


def _now() -> datetime:
    return datetime.now(timezone.utc)

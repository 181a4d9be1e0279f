"""The command `pid-quota top`: a live table of principals, within 80 columns."""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Annotated, Literal

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from jobs.options import TablesOption
from jobs.output.human import plural
from jobs.output.staleness import warn_if_stale
from jobs.output.terminal import OUR_ERRORS, one_line, output, printable
from jobs.output.text_tables import TextTable
from jobs.services.stopping import until_interrupted
from tables.query.freshness import Freshness, read_freshness
from tables.query.top_rows import TopRow, arranged, read_diagnoses, read_rows

Sort = Literal["used", "new", "refused", "active", "tokens", "name"]

_COLUMNS = ("principal", "new/quota", "used", "tokens", "until", "refused", "active", "why")
_RIGHT = ("new/quota", "tokens", "refused", "active")
_PAUSE_S = 2.0
_DIAGNOSES_EVERY = 15
"""A diagnosis reads a day of requests, so `top` makes one in this many refreshes."""
_AROUND = 5
"""Lines of the screen beside the principals: the status, the header, a warning of two lines, and the rest."""
_BAR = 8
_SHORT = {"producer per message/batch": "per batch", "restart loop": "restarts", "new producer on error": "on error"}
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def top(
    tables: TablesOption,
    once: Annotated[
        bool, typer.Option("--once", help="Print the principals once and exit. This is the default without a terminal.")
    ] = False,
    sort: Annotated[Sort, typer.Option(help="Sort order. used: throttled first, then nearest to the quota.")] = (
        "used"
    ),
) -> None:
    """Show live who makes new producer ids. Ctrl-C ends it."""
    console, now = output(), datetime.now(timezone.utc)
    # If the tables can't be read, fail with one line before the screen opens.
    rows = read_rows(tables, now)
    if once or not (sys.stdin.isatty() and console.is_terminal):
        diagnoses = read_diagnoses(tables, now)
        freshness = warn_if_stale(tables, now)
        console.print(printable(summary(rows, freshness)))
        console.print(rows_table([row.diagnosed(diagnoses) for row in arranged(rows, sort)]))
        return
    with until_interrupted():
        _watch(console, tables, sort)


def _watch(console: Console, tables: str, sort: Sort) -> None:
    diagnoses: Mapping[str, str] = {}
    looks = 0
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            now = datetime.now(timezone.utc)
            try:
                if looks % _DIAGNOSES_EVERY == 0:
                    diagnoses = read_diagnoses(tables, now)
                rows, freshness = read_rows(tables, now), read_freshness(tables, now)
                live.update(screen(rows, freshness, diagnoses, sort, console.height), refresh=True)
                looks += 1
            except OUR_ERRORS as error:
                live.update(printable(one_line(str(error))), refresh=True)
            time.sleep(_PAUSE_S)


def screen(
    rows: Sequence[TopRow], freshness: Freshness, diagnoses: Mapping[str, str], sort: Sort, height: int
) -> Group:
    """Return what fills a terminal of `height` lines: the totals, and the first principals."""
    shown = arranged(rows, sort)[: max(1, height - _AROUND)]
    left_out = len(rows) - len(shown)
    stale = [Text(f"{freshness.warning()}\n{freshness.advice}", "bold yellow")] if freshness.is_stale else []
    more = [Text(f"and {left_out:,} more: --once prints all", "dim")] if left_out else []
    table = rows_table([row.diagnosed(diagnoses) for row in shown])
    return Group(*stale, Text(printable(summary(rows, freshness)).plain, "bold"), table, *more)


def rows_table(rows: Sequence[TopRow]) -> TextTable:
    """Return the principals as a table."""
    return TextTable(_COLUMNS, map(_cells, rows), right=_RIGHT, gap=1)


def _cells(row: TopRow) -> tuple[Text, ...]:
    until = row.throttled_until
    quota = "-" if row.quota is None else number(row.quota)
    state = "saturated" if row.saturated else row.phase if row.phase == "learning" else ""
    return (
        Text(printable(row.principal).plain, "bold red" if until else ""),
        Text(f"{number(row.new_pids)}/{quota}"),
        bar(row.used_share) if row.quota else Text(),
        Text("-" if row.tokens is None else number(row.tokens)),
        Text("" if until is None else f"{until:%H:%M:%S}", "red"),
        Text(number(row.refused_pids), "red" if row.refused_pids else ""),
        Text(number(row.active_pids)),
        printable(state or _SHORT.get(row.diagnosis, row.diagnosis)),
    )


def bar(share: float) -> Text:
    """Return a usage bar. An arrow marks more than 100 %.

    Examples:
        >>> bar(0.5).plain, bar(3).plain
        ('████────', '███████▶')
    """
    full = min(_BAR, round(share * _BAR))
    text = "█" * full + "─" * (_BAR - full) if share <= 1 else "█" * (_BAR - 1) + "▶"
    return Text(text, style="red" if share >= 1 else "yellow" if share >= 0.8 else "green")


def number(value: float) -> str:
    """Format a number in at most five characters, or six with a minus sign.

    Examples:
        >>> number(1234), number(-0.5), number(12_345), number(1e9), number(999_999), number(3.0)
        ('1,234', '-0.5', '12.3k', '1G', '1M', '3')
    """
    if abs(value) < 9_999.5:
        return f"{value:,.0f}" if value == round(value) or abs(value) >= 100 else f"{value:.1f}"
    for unit, letter in _UNITS:
        if abs(value) >= unit * 0.9995:
            scaled = value / unit
            return f"{scaled:.1f}".removesuffix(".0") + letter if abs(scaled) < 99.95 else f"{scaled:.0f}{letter}"
    return f"{value:.0f}"


def summary(rows: Sequence[TopRow], freshness: Freshness) -> str:
    """Return totals in one line. Without recent rows, the present numbers are unknown, not zero."""
    now = f"{freshness.now:%H:%M:%S} UTC "
    if freshness.is_stale:
        return f"{now} {len(rows):,} principals as of {freshness.since}; it is unknown who is throttled now"
    throttled = sum(row.throttled_until is not None for row in rows)
    held = sum(row.hold == "held" for row in rows)
    new, refused = sum(row.new_pids for row in rows), sum(row.refused_pids for row in rows)
    return (
        f"{now} {plural(len(rows), 'principal')}, {throttled} throttled, {held} held, "
        f"{number(new)} new {'PID' if new == 1 else 'PIDs'}, {number(refused)} refused"
    )

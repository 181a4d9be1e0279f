"""`pid-quota sql`: a query over the tables and views, as a table or as JSON."""

import json
import math
from datetime import datetime, timezone
from typing import Annotated, Any

import typer
from rich.table import Table

from jobs.answer import Answer
from jobs.console import output, printable
from jobs.query import query
from jobs.views import views
from quota.config import QuotaConfig

TablesOption = Annotated[
    str,
    typer.Option(
        "--tables",
        envvar="PID_QUOTA_TABLES",
        help="Folder of Delta tables, or catalog.schema.",
        show_default=False,
    ),
]
_ALL_OF = {name: " ".join(("SELECT * FROM", name)) for name in views()}
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def sql(
    tables: TablesOption,
    text: Annotated[str | None, typer.Argument(metavar="[SELECT]", help="One SELECT, in quotes.")] = None,
    view: Annotated[str | None, typer.Option(help=f"Show a view: {', '.join(views())}.", show_default=False)] = None,
    as_json: JsonOption = False,
    window_seconds: Annotated[int, typer.Option(help="The stream's window, by which the views refill tokens.")] = 3600,
    burst_windows: Annotated[float, typer.Option(help="The stream's full bucket, in windows of quota.")] = 1.0,
) -> None:
    """Query the tables and the views on them, or show a view."""
    config = QuotaConfig(window_seconds=window_seconds, burst_windows=burst_windows)
    answer = query(tables, _select(text, view), datetime.now(timezone.utc), config)
    if as_json:
        typer.echo(to_json(answer))
    else:
        output().print(to_table(answer))


def _select(text: str | None, view: str | None) -> str:
    if (text is None) == (view is None):
        msg = "either a SELECT or --view is wanted, such as --view current_throttles"
        raise typer.BadParameter(msg)
    if text is not None:
        return text
    if view not in views():
        msg = f"there is no view {view}: choose one of {', '.join(views())}"
        raise typer.BadParameter(msg)
    return _ALL_OF[view or ""]


def to_json(answer: Answer) -> str:
    """Return the rows as a JSON array of objects; times in ISO 8601, bytes in hex, NaN and infinity as null."""
    records = [{name: _plain(value) for name, value in record.items()} for record in answer.records()]
    return json.dumps(records, ensure_ascii=False, allow_nan=False, indent=2)


def to_table(answer: Answer) -> Table:
    """Return the rows as a table for people."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in answer.columns:
        table.add_column(printable(name), no_wrap=True)
    for row in answer.rows:
        table.add_row(*(printable("" if value is None else _plain(value)) for value in row))
    return table


def _plain(value: Any) -> Any:
    """Return a value in the types of JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)

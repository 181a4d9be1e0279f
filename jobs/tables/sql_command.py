"""The command `pid-quota sql`."""

from datetime import datetime, timezone
from difflib import get_close_matches
from typing import Annotated

import typer

from jobs.options import CsvOption, JsonOption, TablesOption
from jobs.output.staleness import warn_if_known_stale
from jobs.output.tables_out import form, show
from tables.query.sql_query import query
from tables.schema.views import views

_ALL_OF = {name: " ".join(("SELECT * FROM", name)) for name in views()}


def sql(
    tables: TablesOption,
    text: Annotated[str | None, typer.Argument(metavar="[SELECT]", help="One SELECT, in quotes.")] = None,
    view: Annotated[str | None, typer.Option(help=f"Show a view: {', '.join(views())}.", show_default=False)] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Query the tables and views, or show a view."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    now = datetime.now(timezone.utc)
    found = query(tables, _select(text, view), now)
    if view is not None:
        # A view shows the present state, which needs recent rows.
        warn_if_known_stale(tables, now)
    show(found, wanted)


def _select(text: str | None, view: str | None) -> str:
    if (text is None) == (view is None):
        msg = "give a SELECT or --view, such as --view current_throttles"
        raise typer.BadParameter(msg)
    if text is not None:
        return text
    if view not in views():
        near = get_close_matches(view or "", views(), n=1)
        choice = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(views())}"
        msg = f"there is no view {view}: {choice}"
        raise typer.BadParameter(msg)
    return _ALL_OF[view or ""]

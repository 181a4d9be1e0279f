"""The command `pid-quota sql`."""

import json
import time
from datetime import datetime, timezone
from difflib import get_close_matches
from typing import Annotated

import typer

from jobs.options import JsonOption, TablesOption
from jobs.output.json_out import json_value, print_exactly, print_json
from jobs.output.staleness import warn_if_known_stale
from jobs.output.tables_out import Form, form, show, to_csv
from jobs.services.stopping import until_interrupted
from tables.query.sql_query import query
from tables.schema.specs import TABLES
from tables.schema.views import views
from tables.store.open import is_folder
from tables.store.values import Answer

_ALL_OF = {name: " ".join(("SELECT * FROM", name)) for name in (*views(), *TABLES)}
_FOLDER_PAUSE_S = 1.0
_CATALOG_PAUSE_S = 30.0
"""A query of a catalog occupies a warehouse."""


def sql(
    tables: TablesOption,
    text: Annotated[str | None, typer.Argument(metavar="[SELECT]", help="One SELECT, in quotes.")] = None,
    view: Annotated[
        str | None, typer.Option(help=f"Show a view or a table: {', '.join(_ALL_OF)}.", show_default=False)
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also print new and changed rows as they come, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for programs and spreadsheets.")] = False,
) -> None:
    """Query the tables and views, or show a view."""
    wanted, select = form(as_json=as_json, as_csv=as_csv), _select(text, view)
    now = datetime.now(timezone.utc)
    found = query(tables, select, now)
    if view is not None:
        # A view shows the present state, which needs recent rows.
        warn_if_known_stale(tables, now)
    if not follow:
        show(found, wanted)
        return
    with until_interrupted():
        _follow(tables, select, found, wanted)


def _follow(tables: str, select: str, found: Answer, wanted: Form) -> None:
    """Print the rows of `found`, and then those of each later answer that its predecessor lacks."""
    pause_s = _FOLDER_PAUSE_S if is_folder(tables) else _CATALOG_PAUSE_S
    before = set[str]()
    is_first = True
    while True:
        keyed = [(json.dumps(json_value(row)), row) for row in found.rows]
        new = Answer(found.columns, tuple(row for key, row in keyed if key not in before))
        if new.rows:
            _emit(new, wanted, is_first=is_first)
            is_first = False
        before = {key for key, _ in keyed}
        time.sleep(pause_s)
        found = query(tables, select, datetime.now(timezone.utc))


def _emit(new: Answer, wanted: Form, *, is_first: bool) -> None:
    """Print rows: a JSON object per line, CSV with one header, or a table."""
    if wanted == "json":
        for record in new.records():
            print_json(record)
    elif wanted == "csv":
        print_exactly(to_csv(new, header=is_first), end="")
    else:
        show(new, wanted)


def _select(text: str | None, view: str | None) -> str:
    if (text is None) == (view is None):
        msg = "give a SELECT or --view, such as --view current_throttles"
        raise typer.BadParameter(msg)
    if text is not None:
        return text
    if view not in _ALL_OF:
        near = get_close_matches(view or "", _ALL_OF, n=1)
        choice = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(_ALL_OF)}"
        msg = f"there is no view {view}: {choice}"
        raise typer.BadParameter(msg)
    return _ALL_OF[view or ""]

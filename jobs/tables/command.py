"""`pid-quota tables`: creates and describes the tables."""

from dataclasses import astuple
from typing import Annotated

import typer

from jobs.options import CsvOption, JsonOption, TablesOption
from jobs.output.human import size
from jobs.output.progress import progress_bar
from jobs.output.tables_out import form, show
from jobs.output.terminal import output
from jobs.tables.check import check
from tables.errors import TableError, TableNotFoundError
from tables.schema.metric_views import metric_views as definitions
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.values import Answer

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command()(check)

_FACTS = ("table", "version", "rows", "files", "bytes", "oldest", "newest")
_FORMATS = {"bytes": size}
_COLUMNS = ("column", "type", "nullable", "comment")


@app.command()
def create(tables: TablesOption, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """Create missing tables and, in a catalog, their views."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    with open_store(tables) as store, progress_bar("making the tables"):
        done = store.create()
        store.create_views()
    words = {name: "created" if is_new else "unchanged" for name, is_new in done.items()}
    show(Answer(("table", "done"), tuple(words.items())), wanted)


@app.command()
def metric_views(tables: TablesOption, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """Create the metric views of a catalog's tables: new, refused and issued PIDs, and throttles."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    with open_store(tables) as store:
        store.create_metric_views()
    show(Answer(("metric_view", "done"), tuple((name, "made") for name in definitions())), wanted)


@app.command()
def describe(
    tables: TablesOption,
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A table whose columns to show.", show_default=False)
    ] = "",
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Describe the tables' contents, or the columns of one table."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    if name and name not in TABLES:
        msg = f"{name!r} is not a table of pid-quota. Choose from {', '.join(TABLES)}"
        raise TableError(msg)
    specs = [TABLES[name]] if name else list(TABLES.values())
    with open_store(tables) as store:
        there = store.existing()
        found = [(store.facts(spec), store.columns(spec)) for spec in specs if spec.name in there]
    if not found:
        msg = f"there are no tables in {tables}. Check --tables; `pid-quota tables create` makes them"
        raise TableNotFoundError(msg)
    about = Answer(_FACTS, tuple(astuple(facts) for facts, _ in found))
    if not name:
        show(about, wanted, _FORMATS)
        return
    ((_, columns),) = found
    what = Answer(_COLUMNS, tuple(astuple(column) for column in columns))
    if wanted == "json":
        show(Answer((*_FACTS, "comment", "columns"), ((*about.rows[0], TABLES[name].comment, what.records()),)), wanted)
        return
    if wanted == "table":
        output().print(TABLES[name].comment, soft_wrap=True)
        show(about, wanted, _FORMATS)
    show(what, wanted)

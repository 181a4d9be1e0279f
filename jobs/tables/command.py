"""`pid-quota tables`: creates and describes the tables."""

from dataclasses import astuple
from typing import Annotated

import typer

from jobs.human import size
from jobs.progress import progress_bar
from jobs.tables.sql_command import TablesOption
from jobs.tables_out import CsvOption, JsonOption, form, show
from jobs.terminal import output
from tables.errors import TableError, TableNotFoundError
from tables.schema.metric_views import metric_view_statement
from tables.schema.metric_views import metric_views as definitions
from tables.schema.specs import TABLES, TableSpec
from tables.store import catalog, engines
from tables.store.base import Answer
from tables.store.facts import ColumnFacts, TableFacts, column_facts, table_facts
from tables.store.path_tables import create_missing, is_catalog, open_table

app = typer.Typer(no_args_is_help=True, add_completion=False)

_FACTS = ("table", "version", "rows", "files", "bytes", "oldest", "newest")
_FORMATS = {"bytes": size}
_COLUMNS = ("column", "type", "nullable", "comment")


@app.command()
def create(tables: TablesOption, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """Create missing tables, and upgrade those of an earlier version."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    done = _create_in_catalog(tables) if is_catalog(tables) else _create_paths(tables)
    show(Answer(("table", "done"), tuple(done.items())), wanted)


@app.command()
def metric_views(tables: TablesOption, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """Create the metric views of a catalog's tables: new, refused and issued PIDs, and throttles."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    if not is_catalog(tables):
        msg = f"metric views are made in a catalog, and {tables} is a folder. Give --tables CATALOG.SCHEMA"
        raise TableError(msg)
    with engines.engine(tables) as engine:
        for name in definitions():
            engine.execute(metric_view_statement(name, tables))
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
    found = _describe_catalog(tables, specs) if is_catalog(tables) else _describe_paths(tables, specs)
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


def _create_paths(tables: str) -> dict[str, str]:
    before = {name: _version(tables, name) for name in TABLES}
    with progress_bar("making the tables"):
        create_missing(tables)
    after = {name: _version(tables, name) for name in TABLES}
    return {name: _word(before[name] is not None, before[name] != after[name]) for name in TABLES}


def _create_in_catalog(tables: str) -> dict[str, str]:
    with engines.engine(tables) as engine, progress_bar("making the tables") as report:
        there = catalog.existing_tables(engine, tables)
        done: dict[str, str] = {}
        for name, spec in TABLES.items():
            report(len(done), len(TABLES))
            changes = catalog.create(engine, tables, spec, there=name in there)
            done[name] = _word(name in there, changes > 0)
        return done


def _version(tables: str, name: str) -> int | None:
    try:
        return open_table(tables, name).version()
    except TableNotFoundError:
        return None


def _word(there: bool, changed: bool) -> str:
    if not there:
        return "created"
    return "brought up to date" if changed else "unchanged"


def _describe_paths(tables: str, specs: list[TableSpec]) -> list[tuple[TableFacts, list[ColumnFacts]]]:
    found = []
    for spec in specs:
        try:
            table = open_table(tables, spec.name)
        except TableNotFoundError:
            continue
        found.append((table_facts(spec, table), column_facts(table)))
    return found


def _describe_catalog(tables: str, specs: list[TableSpec]) -> list[tuple[TableFacts, list[ColumnFacts]]]:
    with engines.engine(tables) as engine:
        there = catalog.existing_tables(engine, tables)
        return [
            (catalog.facts(engine, tables, spec), catalog.column_facts(engine, tables, spec))
            for spec in specs
            if spec.name in there
        ]

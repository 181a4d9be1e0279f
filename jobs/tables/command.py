"""The command `pid-quota tables`."""

from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from jobs.errors import JobError
from jobs.options import CsvOption, JsonOption, TablesOption
from jobs.output.human import size
from jobs.output.progress import progress_bar
from jobs.output.tables_out import form, show
from jobs.output.terminal import OUR_ERRORS, output
from streaming.databricks import secret_lines
from tables.errors import TableError, TableNotFoundError
from tables.schema.ddl import spark_type
from tables.schema.metric_views import metric_views as definitions
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.rights import Right
from tables.store.values import Answer

app = typer.Typer(no_args_is_help=True, add_completion=False)

_FACTS = ("table", "version", "rows", "files", "bytes", "oldest", "newest")
_FORMATS = {"bytes": size}
_FILE = ".pid-quota-check"
_COLUMNS = ("column", "type", "nullable", "comment")


@app.command()
def create(tables: TablesOption, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """Create missing tables and, in a catalog, their views."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    with open_store(tables) as store, progress_bar("creating the tables"):
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
        str, typer.Argument(metavar="[NAME]", help="Show the columns of this table.", show_default=False)
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
        found = [store.facts(spec) for spec in specs if spec.name in there]
    if not found:
        msg = f"there are no tables in {tables}. Check --tables; `pid-quota tables create` creates them"
        raise TableNotFoundError(msg)
    about = Answer(_FACTS, tuple(map(astuple, found)))
    if not name:
        show(about, wanted, _FORMATS)
        return
    what = Answer(_COLUMNS, tuple(_about_column(column) for column in TABLES[name].schema))
    if wanted == "json":
        show(Answer((*_FACTS, "comment", "columns"), ((*about.rows[0], TABLES[name].comment, what.records()),)), wanted)
        return
    if wanted == "table":
        output().print(TABLES[name].comment, soft_wrap=True)
        show(about, wanted, _FORMATS)
    show(what, wanted)


def _about_column(column: pa.Field) -> tuple[object, ...]:
    return column.name, spark_type(column.type), column.nullable, column.metadata[b"comment"].decode()


@app.command()
def check(
    tables: TablesOption,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder of the stream's checkpoint, such as /Volumes/… .", show_default=False)
    ] = None,
    kafka_secret: Annotated[
        str | None, typer.Option(help="Databricks secret with the Kafka client's settings, as scope/key.")
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Test each right that the jobs need in a catalog, and show the statements that grant missing rights."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    with open_store(tables) as store:
        rights = store.rights()
        if checkpoint is not None:
            rights.append(_writing(checkpoint))
        if kafka_secret is not None:
            remedy = f"databricks secrets put-acl {kafka_secret.partition('/')[0]} WHO READ"
            remedy += "; databricks bundle run put-secret < FILE"
            rights.append(Right(f"read the secret {kafka_secret}", lambda: secret_lines(kafka_secret), remedy))
        found = [(right.name, *_tried(right)) for right in rights]
    show(Answer(("right", "ok", "error", "remedy"), tuple(found)), wanted)
    missing = sum(not is_ok for _, is_ok, _, _ in found)
    if missing:
        msg = f"{missing} of {len(found)} rights are missing. WHO is the identity that runs the job"
        raise JobError(msg)


def _tried(right: Right) -> tuple[bool, str, str]:
    try:
        right.attempt()
    except (*OUR_ERRORS, OSError) as error:
        return False, str(error), right.remedy
    return True, "", ""


def _writing(folder: Path) -> Right:
    def attempt() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / _FILE
        file.write_text("pid-quota tried to write here\n", encoding="utf-8")
        file.unlink()

    return Right(f"write to {folder}", attempt, "GRANT READ VOLUME, WRITE VOLUME ON VOLUME … TO WHO")

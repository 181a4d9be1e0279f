"""`pid-quota maintain`: expires rows, compacts and vacuums the tables, beside a running stream."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import datetime, timezone
from typing import Annotated

import typer

from jobs.human import size
from jobs.progress import ProgressReport, progress_bar
from jobs.tables.sql_command import TablesOption
from jobs.tables_out import CsvOption, JsonOption, form, show
from tables.errors import CatalogError, TableError, TableNotFoundError
from tables.schema.specs import TABLES, TableSpec
from tables.store import catalog, engines
from tables.store.base import Answer
from tables.store.path_tables import is_catalog
from tables.store.retention import days_to_keep
from tables.store.upkeep import Upkeep, UpkeepPlan, alone, keep_up

_MIN_VACUUM_HOURS = 1
_COLUMNS = (
    "table",
    "rows_before",
    "rows",
    "files_before",
    "files",
    "bytes_before",
    "bytes",
    "deleted_rows",
    "merged_files",
    "vacuumed_files",
    "log_files",
)


def maintain(
    tables: TablesOption,
    retention: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE=DAYS", help="Retention of a table's rows; 0 is for ever. Repeatable."),
    ] = None,
    vacuum_hours: Annotated[
        int, typer.Option(min=0, help="Retention of older versions' files, for readers of those versions.")
    ] = 168,
    allow_short_vacuum: Annotated[
        bool, typer.Option("--allow-short-vacuum", help="Allow --vacuum-hours 0: only when nothing reads or writes.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Delete expired rows, compact small files, and delete unreferenced files and log entries."""
    if vacuum_hours < _MIN_VACUUM_HOURS and not allow_short_vacuum:
        msg = (
            f"--vacuum-hours {vacuum_hours} is less than {_MIN_VACUUM_HOURS}: a running stream or a reader may lose "
            "files under its hands. Give more, or --allow-short-vacuum when nothing runs"
        )
        raise typer.BadParameter(msg)
    plan = UpkeepPlan(days_to_keep(retention or ()), vacuum_hours, dry_run)
    wanted = form(as_json=as_json, as_csv=as_csv)
    with progress_bar("keeping up the tables") as report:
        done, failed = (_of_catalog if is_catalog(tables) else _of_paths)(tables, plan, report)
    show(Answer(_COLUMNS, tuple(map(_row, done))), wanted, {"bytes_before": size, "bytes": size})
    if failed:
        raise TableError("; ".join(failed))


def _of_paths(tables: str, plan: UpkeepPlan, report: ProgressReport) -> tuple[list[Upkeep], list[str]]:
    now = datetime.now(timezone.utc)
    missing: list[TableNotFoundError] = []

    def each(spec: TableSpec) -> Upkeep | None:
        try:
            return keep_up(tables, spec, plan, now)
        except TableNotFoundError as error:
            # Another version of the stream may not have created it.
            missing.append(error)
            return None

    with nullcontext() if plan.dry_run else alone(tables):
        done, failed = _each(list(TABLES.values()), each, report)
    if not done and not failed:
        raise missing[0]
    return done, failed


def _of_catalog(tables: str, plan: UpkeepPlan, report: ProgressReport) -> tuple[list[Upkeep], list[str]]:
    now = datetime.now(timezone.utc)
    with engines.engine(tables) as engine:
        there = [TABLES[name] for name in catalog.existing_tables(engine, tables)]
        if not there:
            msg = f"none of the tables is in {tables}. Check --tables; `pid-quota tables create` makes them"
            raise TableNotFoundError(msg)
        return _each(there, lambda spec: catalog.keep_up(engine, tables, spec, plan, now), report)


def _each(
    specs: Sequence[TableSpec], step: Callable[[TableSpec], Upkeep | None], report: ProgressReport
) -> tuple[list[Upkeep], list[str]]:
    """Run a step on all tables, also after one has failed."""
    done, failed = [], []
    for number, spec in enumerate(specs):
        report(number, len(specs))
        try:
            upkeep = step(spec)
        except TableNotFoundError:
            raise
        except (TableError, CatalogError) as error:
            failed.append(str(error))
        else:
            done += [upkeep] if upkeep else []
    return done, failed


def _row(done: Upkeep) -> tuple[object, ...]:
    before, after = done.before, done.after
    sizes = (before.rows, after.rows, before.files, after.files, before.size_bytes, after.size_bytes)
    return (after.table, *sizes, done.deleted_rows, done.merged_files, done.vacuumed_files, done.log_files)


if __name__ == "__main__":
    from jobs.cli import run_command

    run_command(maintain)

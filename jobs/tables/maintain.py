"""The command `pid-quota maintain`."""

from contextlib import nullcontext
from dataclasses import astuple
from datetime import datetime, timezone
from typing import Annotated

import typer

from jobs.options import CsvOption, JsonOption, TablesOption
from jobs.output.human import size
from jobs.output.progress import ProgressReport, progress_bar
from jobs.output.tables_out import form, show
from tables.errors import TableError, TableNotFoundError
from tables.schema.specs import TABLES
from tables.store.base import TableStore
from tables.store.open import open_store
from tables.store.retention import days_to_keep
from tables.store.values import Answer, Upkeep, UpkeepPlan

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
        typer.Option(metavar="TABLE=DAYS", help="Days to keep a table's rows; 0 keeps them forever. Repeatable."),
    ] = None,
    vacuum_hours: Annotated[
        int, typer.Option(min=0, help="Hours to keep files of older versions, for readers that still use them.")
    ] = 168,
    allow_short_vacuum: Annotated[
        bool,
        typer.Option(
            "--allow-short-vacuum",
            help="Allow a short --vacuum-hours. Use it only when nothing reads or writes the tables.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Delete expired rows, compact small files, and delete unreferenced files and log entries."""
    if vacuum_hours < _MIN_VACUUM_HOURS and not allow_short_vacuum:
        msg = (
            f"--vacuum-hours {vacuum_hours} is less than {_MIN_VACUUM_HOURS}: a running stream or a reader may lose "
            "files that it still needs. Give more, or --allow-short-vacuum when nothing runs"
        )
        raise typer.BadParameter(msg)
    plan = UpkeepPlan(days_to_keep(retention or ()), vacuum_hours, dry_run)
    wanted = form(as_json=as_json, as_csv=as_csv)
    with open_store(tables) as store, progress_bar("maintaining the tables") as report:
        done, failed = _keep_up(store, plan, report)
    show(Answer(_COLUMNS, tuple(map(_row, done))), wanted, {"bytes_before": size, "bytes": size})
    if failed:
        raise TableError("; ".join(failed))


def _keep_up(store: TableStore, plan: UpkeepPlan, report: ProgressReport) -> tuple[list[Upkeep], list[str]]:
    now = datetime.now(timezone.utc)
    done, failed = [], []
    with nullcontext() if plan.dry_run else store.alone():
        there = store.existing()
        if not there:
            msg = f"there are no tables in {store.tables}. Check --tables; `pid-quota tables create` creates them"
            raise TableNotFoundError(msg)
        for number, name in enumerate(there):
            report(number, len(there))
            try:
                done.append(store.keep_up(TABLES[name], plan, now))
            except TableError as error:
                failed.append(str(error))
    return done, failed


def _row(done: Upkeep) -> tuple[object, ...]:
    before, after = done.before, done.after
    sizes = (before.rows, after.rows, before.files, after.files, before.size_bytes, after.size_bytes)
    return (after.table, *sizes, done.deleted_rows, *astuple(done.files))

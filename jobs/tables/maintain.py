"""The command `pid-quota tables maintain`."""

from contextlib import nullcontext
from dataclasses import astuple
from datetime import datetime, timezone
from typing import Annotated

import typer

from jobs.options import TablesOption
from jobs.output.human import size
from jobs.output.progress import ProgressReport, progress_bar
from jobs.output.tables_out import show
from tables.errors import TableError, TableNotFoundError
from tables.schema.specs import TABLES
from tables.store.base import TableStore
from tables.store.open import open_store
from tables.store.retention import days_to_keep
from tables.store.values import Answer, Upkeep, UpkeepPlan

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
        int, typer.Option(min=1, help="Hours to keep files of older versions, for readers that still use them.")
    ] = 168,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")] = False,
) -> None:
    """Delete expired rows, compact small files, and delete unreferenced files and log entries."""
    plan = UpkeepPlan(days_to_keep(retention or ()), vacuum_hours, dry_run)
    with open_store(tables) as store, progress_bar("maintaining the tables") as report:
        done, failed = _keep_up(store, plan, report)
    show(Answer(_COLUMNS, tuple(map(_row, done))), "table", {"bytes_before": size, "bytes": size})
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

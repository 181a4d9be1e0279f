"""Compacts and vacuums tables with `deltalake`, while a stream may append.

Each step commits separately. The log keeps the stream's batch numbers and newest offsets.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tables.errors import TableError, TableNotFoundError, first_line
from tables.schema.ddl import deltalake_literal
from tables.schema.specs import TableSpec
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.facts import file_sizes, table_facts
from tables.store.log_upkeep import tidy_log
from tables.store.path_tables import ask, open_table, table_path
from tables.store.retention import Asker, keep_from
from tables.store.values import Upkeep, UpkeepPlan

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MIB = 1024 * 1024
_SMALL_FILE = 4 * _MIB
"""Maintenance always compacts smaller files."""
_LARGE_FILE = 64 * _MIB
_MANY_FILES = 20
"""If more files than this are smaller than half of `_LARGE_FILE`, maintenance compacts these files, too."""

_LOCK = ".maintain.lock"


def keep_up(tables: str, spec: TableSpec, plan: UpkeepPlan, now: datetime) -> Upkeep:
    """Delete a table's expired rows, compact and vacuum the table, and truncate the log.

    Raises:
        TableError: If the table is missing or can't be read or written, or conflicts persist.
    """
    # Step 1. Note the size before.
    before = table_facts(spec, open_table(tables, spec.name))
    # Step 2. Delete expired rows first, so that they are not compacted.
    deleted = _commit(tables, spec, lambda table: _delete(table, spec, plan, now))
    # Step 3. Compact.
    merged = _commit(tables, spec, lambda table: _merge(table, plan))
    # Step 4. Vacuum.
    vacuumed = _commit(tables, spec, lambda table: _vacuum(table, plan))
    # Step 5. Checkpoint and truncate the log.
    folder = None if "://" in tables else Path(table_path(tables, spec.name))
    log_files = 0 if plan.dry_run else _commit(tables, spec, lambda table: tidy_log(table, folder, now))
    return Upkeep(before, table_facts(spec, open_table(tables, spec.name)), deleted, merged, vacuumed, log_files)


@contextmanager
def alone(tables: str) -> Iterator[None]:
    """Lock a folder of tables, so that a machine runs one `pid-quota tables maintain` at a time.

    In deltalake, concurrent compactions duplicate rows. An object store has no lock, so your scheduler has to prevent
    concurrent runs.

    Raises:
        TableError: If another process holds the lock, or the folder is missing or not writable.
    """
    if "://" in tables:
        yield
        return
    if not Path(tables).is_dir():
        msg = f"there are no tables in {tables}. Check --tables (or PID_QUOTA_TABLES)"
        raise TableNotFoundError(msg)
    with ExitStack() as held:
        try:
            lock = held.enter_context(Path(tables, _LOCK).open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            msg = f"another `pid-quota tables maintain` is running on {tables}: let it end first"
            raise TableError(msg) from error
        except OSError as error:
            msg = f"tables path {tables} is not writable ({error.strerror}). Check who owns it"
            raise TableError(msg) from error
        yield


def _commit(tables: str, spec: TableSpec, step: "Callable[[DeltaTable], int]") -> int:
    from deltalake.exceptions import DeltaError

    try:
        return retry_conflicts(lambda: step(open_table(tables, spec.name)))
    except (DeltaError, OSError) as error:
        reason = first_line(error)
        msg = f"upkeep of {spec.name} in {tables} failed: {reason}. Finished steps are kept; run it again"
        raise TableError(msg) from error


def _delete(table: "DeltaTable", spec: TableSpec, plan: UpkeepPlan, now: datetime) -> int:
    before = keep_from(now, plan.days[spec.name]) if spec.time_column else None
    oldest = table_facts(spec, table).oldest
    if before is not None and oldest is not None and oldest >= before:
        return 0
    asker = Asker("t", partial(ask, table), deltalake_literal)
    rows = asker.expired(spec, plan.days, now)
    if rows is None:
        return 0
    if plan.dry_run:
        return asker.count(rows)
    return int(table.delete(rows.as_text(deltalake_literal), **_quietly())["num_deleted_rows"])


def _merge(table: "DeltaTable", plan: UpkeepPlan) -> int:
    if plan.dry_run:
        small = sum(size < _SMALL_FILE for size in file_sizes(table))
        return small if small > 1 else 0
    merged = int(table.optimize.compact(target_size=_SMALL_FILE, **_quietly())["numFilesRemoved"])
    if sum(size < _LARGE_FILE // 2 for size in file_sizes(table)) > _MANY_FILES:
        merged += int(table.optimize.compact(target_size=_LARGE_FILE, **_quietly())["numFilesRemoved"])
    return merged


def _vacuum(table: "DeltaTable", plan: UpkeepPlan) -> int:
    # A full vacuum also finds files of crashed writers.
    options: dict[str, Any] = {"retention_hours": plan.vacuum_hours, "enforce_retention_duration": False, "full": True}
    return len(table.vacuum(dry_run=plan.dry_run, **options, **_quietly()))


def _quietly() -> dict[str, Any]:
    # Step 5 writes the checkpoint.
    return leaving_old_log(checkpoint=False)

"""Compacts and vacuums path tables beside a running stream, with `deltalake`; no concurrent append fails.

Each step is one commit, or none if there is nothing to do. What a stream needs stays: its batch numbers are in every
checkpoint of a table's log, its newest offsets in the log itself.
"""

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tables.errors import TableError, TableNotFoundError, first_line
from tables.schema.specs import TableSpec
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.facts import TableFacts, file_sizes, table_facts
from tables.store.log_upkeep import tidy_log
from tables.store.path_tables import open_table, table_path
from tables.store.retention import CLOSED, LeaseAge, OldRows, deltalake_literal, keep_from, old_rows, replaced_quotas

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MIB = 1024 * 1024
_SMALL_FILE = 4 * _MIB
"""Smaller files are compacted in every run: an hour of batches becomes one file, large files are not rewritten."""
_LARGE_FILE = 64 * _MIB
_MANY_FILES = 20
"""More mid-sized files than this are compacted to large ones; rarely, since the sources stay until the vacuum."""

_LOCK = ".maintain.lock"
_COUNT = "SELECT count(*) AS n FROM t WHERE {condition}"


@dataclass(frozen=True)
class UpkeepPlan:
    """What to do.

    Attributes:
        days: Retention of each table in days; 0 keeps rows for ever.
        vacuum_hours: Retention of unreferenced files, for readers of older versions.
        dry_run: Only report what would be done.
    """

    days: Mapping[str, int]
    vacuum_hours: int
    dry_run: bool = False


@dataclass(frozen=True)
class Upkeep:
    """What was, or would be, done to a table.

    None stands for what the storage does not report.

    Attributes:
        before: The table before.
        after: The table afterwards.
        deleted_rows: Expired rows.
        merged_files: Files replaced by larger ones.
        vacuumed_files: Data files deleted.
        log_files: Log files deleted, including orphaned checksums.
    """

    before: TableFacts
    after: TableFacts
    deleted_rows: int
    merged_files: int | None
    vacuumed_files: int | None
    log_files: int | None


def keep_up(tables: str, spec: TableSpec, plan: UpkeepPlan, now: datetime) -> Upkeep:
    """Delete expired rows, compact, vacuum and truncate the log of one table.

    Args:
        tables: Folder of the tables.
        spec: Of the table.
        plan: What to do.
        now: The present.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If it can't be read or written, or conflicts persist.
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
    """Hold the lock on a folder of tables: one upkeep per machine at a time.

    deltalake lets two compactions of the same files commit, which duplicates their rows. In an object store nothing
    is locked: the scheduler has to prevent overlaps.

    Raises:
        TableError: If another upkeep holds the lock, or the folder is not writable.
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
            msg = f"another `pid-quota maintain` is running on {tables}: let it end first"
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
        msg = f"upkeep of {spec.name} in {tables} failed: {reason}. What was done so far holds; run it again"
        raise TableError(msg) from error


def _delete(table: "DeltaTable", spec: TableSpec, plan: UpkeepPlan, now: datetime) -> int:
    rows = _too_old(table, spec, plan, now)
    if rows is None:
        return 0
    if plan.dry_run:
        return _count(table, rows)
    return int(table.delete(rows.as_text(deltalake_literal), **_quietly())["num_deleted_rows"])


def _too_old(table: "DeltaTable", spec: TableSpec, plan: UpkeepPlan, now: datetime) -> OldRows | None:
    if spec.name == "producer_id_quotas":
        return replaced_quotas(_newest_of_several(table))
    before = keep_from(now, plan.days[spec.name]) if spec.time_column else None
    oldest = table_facts(spec, table).oldest
    if before is None or (oldest is not None and oldest >= before):
        return None
    return old_rows(spec, before, _leases(table) if "lease_id" in spec.schema.names else ())


def _newest_of_several(table: "DeltaTable") -> dict[str | None, datetime]:
    quotas = table.to_pyarrow_table(columns=["entity_name", "updated_at"])
    newest = quotas.group_by("entity_name").aggregate([("updated_at", "max"), ("updated_at", "count")])
    rows = newest.to_pylist()
    return {row["entity_name"]: row["updated_at_max"] for row in rows if row["updated_at_count"] > 1}


def _leases(table: "DeltaTable") -> list[LeaseAge]:
    rows = table.to_pyarrow_table(columns=["lease_id", "recorded_at", "state"]).to_pylist()
    closed = {row["lease_id"] for row in rows if row["state"] in CLOSED}
    newest: dict[str, datetime] = {}
    for row in rows:
        if row["lease_id"] is not None:
            newest[row["lease_id"]] = max(newest.get(row["lease_id"], row["recorded_at"]), row["recorded_at"])
    return [LeaseAge(lease_id, time, lease_id in closed) for lease_id, time in newest.items()]


def _count(table: "DeltaTable", rows: OldRows) -> int:
    from deltalake import QueryBuilder

    # The engine that runs DELETE, so that the condition means the same.
    found = QueryBuilder().register("t", table).execute(_COUNT.format(condition=rows.as_text(deltalake_literal)))
    return int(pa.table(found.read_all())["n"][0].as_py())


def _merge(table: "DeltaTable", plan: UpkeepPlan) -> int:
    if plan.dry_run:
        small = sum(size < _SMALL_FILE for size in file_sizes(table))
        return small if small > 1 else 0
    merged = int(table.optimize.compact(target_size=_SMALL_FILE, **_quietly())["numFilesRemoved"])
    if sum(size < _LARGE_FILE // 2 for size in file_sizes(table)) > _MANY_FILES:
        merged += int(table.optimize.compact(target_size=_LARGE_FILE, **_quietly())["numFilesRemoved"])
    return merged


def _vacuum(table: "DeltaTable", plan: UpkeepPlan) -> int:
    # Full: also finds files of crashed writers.
    options: dict[str, Any] = {"retention_hours": plan.vacuum_hours, "enforce_retention_duration": False, "full": True}
    return len(table.vacuum(dry_run=plan.dry_run, **options, **_quietly()))


def _quietly() -> dict[str, Any]:
    # Step 5 writes the checkpoint.
    return leaving_old_log(checkpoint=False)

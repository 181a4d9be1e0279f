"""Compacts and vacuums tables with `deltalake`, while a stream may append.

Each step commits separately. The log keeps the stream's batch numbers and newest offsets.
"""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tables.errors import TableError, TableNotFoundError
from tables.store.commits import leaving_old_log
from tables.store.path_tables import data_files
from tables.store.values import UpkeepPlan

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MIB = 1024 * 1024
_SMALL_FILE = 4 * _MIB
"""Maintenance always compacts smaller files."""
_LARGE_FILE = 64 * _MIB
_MANY_FILES = 20
"""If more files than this are smaller than half of `_LARGE_FILE`, maintenance compacts these files, too."""

_LOCK = ".maintain.lock"


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


def merge_files(table: "DeltaTable", plan: UpkeepPlan) -> int:
    """Compact small files, and return their number."""
    if plan.dry_run:
        small = _count_below(table, _SMALL_FILE)
        return small if small > 1 else 0
    merged = int(table.optimize.compact(target_size=_SMALL_FILE, **quietly())["numFilesRemoved"])
    if _count_below(table, _LARGE_FILE // 2) > _MANY_FILES:
        merged += int(table.optimize.compact(target_size=_LARGE_FILE, **quietly())["numFilesRemoved"])
    return merged


def vacuum(table: "DeltaTable", plan: UpkeepPlan) -> int:
    """Delete unreferenced files, and return their number."""
    # A full vacuum also finds files of crashed writers.
    options: dict[str, Any] = {"retention_hours": plan.vacuum_hours, "enforce_retention_duration": False, "full": True}
    return len(table.vacuum(dry_run=plan.dry_run, **options, **quietly()))


def quietly() -> dict[str, Any]:
    """Return arguments with which a commit of maintenance leaves the log alone, because its last step tidies it."""
    return leaving_old_log(checkpoint=False)


def _count_below(table: "DeltaTable", size: int) -> int:
    return sum(each < size for each in data_files(table)["size_bytes"].to_pylist())

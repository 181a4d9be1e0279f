"""Truncates the log of a path table behind a checkpoint.

A checkpoint keeps the streams' batch numbers (`txn`), so a table still recognises replayed batches after a cleanup.
"""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tables.schema.specs import LOG_RETENTION_PROPERTY

if TYPE_CHECKING:
    from deltalake import DeltaTable

_CHECKSUM_AGE = timedelta(hours=1)
"""Minimum age of a checksum to delete. Spark writes a file and its checksum separately, so the file may still come."""
_LOOK_BACK = (20, 1000, None)
_SHARE_SURE_TO_STAY = 0.9
"""Log files certainly stay for this share of the retention. (A log file may be slightly older than its commit.)"""
_INTERVAL = re.compile(r"interval (\d+) (minute|hour|day|week)s?")
_DEFAULT_INTERVAL = "interval 30 days"
"""Delta's default."""


def tidy_log(table: "DeltaTable", folder: Path | None, now: datetime) -> int:
    """Write a checkpoint for the newest version unless it has one, and delete expired log files.

    Args:
        table: Table at its newest version.
        folder: Local folder of the table; None if the table is elsewhere.
        now: Present time.

    Returns:
        Number of files deleted, including orphaned checksums; 0 if the table is not in a local folder.
    """
    if folder is None:
        table.create_checkpoint()
        _clean_up(table, now)
        return 0
    log = folder / "_delta_log"
    if not (log / f"{table.version():020d}.checkpoint.parquet").exists():
        table.create_checkpoint()
    before = {path.name for path in log.iterdir()}
    _clean_up(table, now)
    cleaned = before - {path.name for path in log.iterdir()}
    return len(cleaned) + drop_orphaned_checksums(folder, now - _CHECKSUM_AGE)


def drop_orphaned_checksums(folder: Path, written_before: datetime) -> int:
    """Delete checksums whose file is gone. deltalake's vacuum and log cleanup leave such checksums.

    Spark writes a checksum `N.crc` for each version `N.json`. Hadoop's local file system also writes a hidden checksum
    beside every file.

    Args:
        folder: Folder of a table.
        written_before: Checksums written later stay, because their file may not exist yet.

    Returns:
        Number of files deleted.
    """
    log = folder / "_delta_log"
    versions = [path for path in log.glob("[0-9]*.crc") if not path.with_suffix(".json").exists()]
    dropped = sum(_drop(path, written_before) for path in versions)
    # Delete hidden checksums last, because the checksums deleted above have hidden checksums, too.
    hidden = [path for path in folder.rglob(".*.crc") if not path.with_name(path.name[1:-4]).exists()]
    return dropped + sum(_drop(path, written_before) for path in hidden)


def _drop(path: Path, written_before: datetime) -> bool:
    try:
        if path.stat().st_mtime >= written_before.timestamp():
            return False
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _clean_up(table: "DeltaTable", now: datetime) -> None:
    if not _would_lose_mark(table, now):
        table.cleanup_metadata()


def _would_lose_mark(table: "DeltaTable", now: datetime) -> bool:
    """Return whether a cleanup would delete the stream's newest commit, which holds the offsets to resume from.

    Checkpoints do not keep these offsets. So a rarely written table keeps its log until the stream writes again.
    """
    kept_from_ms = (now - _log_retention(table) * _SHARE_SURE_TO_STAY).timestamp() * 1000
    for limit in _LOOK_BACK:
        commits = table.history(limit)
        marked = [commit for commit in commits if commit.get("userMetadata")]
        if marked:
            return bool(marked[0].get("timestamp", 0) < kept_from_ms)
        if limit is None or len(commits) < limit:
            break
    return False


def _log_retention(table: "DeltaTable") -> timedelta:
    text = table.metadata().configuration.get(LOG_RETENTION_PROPERTY, _DEFAULT_INTERVAL)
    interval = _INTERVAL.fullmatch(text)
    # An interval that can't be parsed counts as zero, which keeps the log.
    return timedelta(**{f"{interval[2]}s": int(interval[1])}) if interval else timedelta(0)

"""Truncates a table's log after a checkpoint.

The checkpoint keeps the streams' batch numbers (`txn`), by which a table recognises repeated batches.
"""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tables.schema.specs import LOG_RETENTION_PROPERTY

if TYPE_CHECKING:
    from deltalake import DeltaTable

_CHECKSUM_AGE = timedelta(hours=1)
"""Minimum age at which a checksum is deleted. Spark may write a checksum before the checksum's file."""
_LOOK_BACK = (20, None)
_SHARE_SURE_TO_STAY = 0.9
"""For this share of the retention, log files certainly stay. A log file may be slightly older than its commit."""
_INTERVAL = re.compile(r"interval (\d+) (minute|hour|day|week)s?")
_DEFAULT_INTERVAL = "interval 30 days"
"""Delta's default log retention."""


def tidy_log(table: "DeltaTable", folder: Path | None, now: datetime) -> int:
    """Write a checkpoint of the open version unless a checkpoint exists, and delete expired log files.

    Return the number of deleted files, or 0 if `folder` is None (an object store).
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
    """Delete checksums whose file is gone, and return their number. Checksums written after `written_before` stay.

    deltalake deletes no checksums. Spark writes a checksum `N.crc` for each version `N.json`, and Hadoop's local file
    system writes a hidden checksum for each file.
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
    """Return whether a cleanup would delete a stream's newest offsets, which are in a commit but in no checkpoint."""
    kept_from_ms = (now - _log_retention(table) * _SHARE_SURE_TO_STAY).timestamp() * 1000
    # A log may have a hundred thousand commits. Nearly always, one of the newest has offsets.
    for limit in _LOOK_BACK:
        newest = next((commit for commit in table.history(limit) if commit.get("userMetadata")), None)
        if newest is not None:
            return bool(newest.get("timestamp", 0) < kept_from_ms)
    return False


def _log_retention(table: "DeltaTable") -> timedelta:
    text = table.metadata().configuration.get(LOG_RETENTION_PROPERTY, _DEFAULT_INTERVAL)
    interval = _INTERVAL.fullmatch(text)
    # An interval that can't be parsed counts as zero, so that the log stays if a commit has a stream's offsets.
    return timedelta(**{f"{interval[2]}s": int(interval[1])}) if interval else timedelta(0)

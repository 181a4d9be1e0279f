"""Keeps the log of a path table short: a checkpoint, and nothing before it that somebody may still need.

A checkpoint holds the numbers of the streams' batches (`txn`), so a repeated batch is recognised after any cleanup.
"""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tables.specs import LOG_RETENTION_PROPERTY

if TYPE_CHECKING:
    from deltalake import DeltaTable

_CHECKSUM_AGE = timedelta(hours=1)
"""Spark writes a file and its checksum one after the other."""
_LOOK_BACK = (20, 1000, None)
_SHARE_SURE_TO_STAY = 0.9
"""Of the time that the log is kept: its files may be a little older than the commits in them."""
_INTERVAL = re.compile(r"interval (\d+) (minute|hour|day|week)s?")
_DEFAULT_INTERVAL = "interval 30 days"
"""Delta's own, of tables that nobody gave one."""


def tidy_log(table: "DeltaTable", folder: Path | None, now: datetime) -> int:
    """Write a checkpoint if the newest version has none, and delete what the table's log no longer needs.

    Args:
        table: At its newest version.
        folder: Where it is; None if that is no local folder.
        now: The present.

    Returns:
        Files deleted, checksums of deleted data files among them; 0 where it is no local folder.
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
    """Delete the checksums of files that are gone; deltalake's vacuum and log cleanup do not know of them.

    Spark writes a checksum `N.crc` for each version `N.json`, and Hadoop's local file system one beside every file.

    Args:
        folder: Of a table.
        written_before: Younger ones stay: their file may be on its way.

    Returns:
        How many there were.
    """
    log = folder / "_delta_log"
    versions = [path for path in log.glob("[0-9]*.crc") if not path.with_suffix(".json").exists()]
    dropped = sum(_drop(path, written_before) for path in versions)
    # Only now: those of versions have one beside them themselves.
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
    """Say whether the cleanup would take the newest commit of a stream, which says from where the next one reads on.

    Only the log has it: a table into which the stream seldom writes keeps its log until the stream writes again.
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
    # What can't be read is taken for nothing: then the log stays as long as the newest commit of a stream is old.
    return timedelta(**{f"{interval[2]}s": int(interval[1])}) if interval else timedelta(0)

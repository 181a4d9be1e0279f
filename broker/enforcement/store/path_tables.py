"""The enforcer's tables by `deltalake`, without a JVM: follows `throttle_decisions`, writes `enforcement_actions`."""

import os.path
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from broker.enforcement.model import EnforcementRecord, ThrottleDecision
from broker.enforcement.store.rows import (
    ACTIONS,
    DECISION_COLUMNS,
    DECISIONS,
    action_row,
    is_credible,
    newest_decisions,
    records_of,
)
from tables.errors import TableError, TableNotFoundError, first_line
from tables.schema.ddl import row_schema
from tables.schema.specs import TABLES
from tables.store.appends import append_rows
from tables.store.facts import data_files, paths_since
from tables.store.path_tables import open_table, table_path
from tables.times import to_time

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAX_FILES = 1000
"""To keep rows of; maintenance leaves fewer."""


class FollowedTable:
    """A table that others append to; checks cheaply for a new version."""

    def __init__(self, tables: str, name: str) -> None:
        """Remember where the table is; it is opened when first used, and may be unreadable until then.

        Args:
            tables: Folder of the tables.
            name: Of the table.
        """
        self._tables, self.name = tables, name
        self._table: DeltaTable | None = None

    @property
    def table(self) -> "DeltaTable":
        """The table, as of the last refresh.

        Raises:
            TableNotFoundError: If there is no such table.
            TableError: If it can't be read.
        """
        if self._table is None:
            self._table = open_table(self._tables, self.name)
        return self._table

    def refresh(self) -> bool:
        """Advance to the newest version; return whether there was one.

        Raises:
            TableNotFoundError: If the table is gone.
            TableError: If it can't be read.
        """
        # deltalake reports no change for a folder that is gone. Of one that can't be read (EACCES, ESTALE), `os.path`
        # says that it is gone, where `Path` raises: opening it tells the error.
        log = Path(table_path(self._tables, self.name), "_delta_log")
        if self._table is None or ("://" not in self._tables and not os.path.isdir(log)):
            self._table = None
            return self.table is not None
        before = self._table.version()
        try:
            self._table.update_incremental()
        except Exception as error:
            if not _is_delta_error(error):
                raise
            # Log cleanup may have removed what the open table needs; a reopened one does not need it.
            self._table = None
            return self.table is not None
        return self._table.version() != before

    def next_version(self) -> int | None:
        """Return the version after the open one if it is there: a look at a local file; None for tables elsewhere."""
        if self._table is None or "://" in self._tables:
            return None
        version = self._table.version() + 1
        commit = Path(table_path(self._tables, self.name), "_delta_log", f"{version:020}.json")
        return version if os.path.exists(commit) else None

    def last_commit_ms(self) -> int:
        """Return when the newest version was written, in milliseconds since the epoch.

        Raises:
            TableError: If its log can't be read.
        """
        try:
            newest = self.table.history(1)
        except Exception as error:
            if not _is_delta_error(error):
                raise
            raise self._unreadable(error) from error
        if not newest:
            self._table = None
            msg = f"table {self.name} in {self._tables} no longer has a Delta log: check the folder given by --tables"
            raise TableNotFoundError(msg)
        return int(newest[0]["timestamp"])

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows.

        Raises:
            TableError: If they can't be read.
        """
        paths: list[str] = data_files(self.table)["path"].to_pylist()
        return self.read_files(paths)

    def read_files(self, files: list[str], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of some data files.

        Raises:
            TableError: If they can't be read.
        """
        from deltalake.fs import DeltaStorageHandler

        storage = fs.PyFileSystem(DeltaStorageHandler(self.table.table_uri))
        try:
            found: pa.Table = ds.dataset(files, TABLES[self.name].schema, "parquet", storage).to_table(
                columns=list(columns) if columns else None
            )
            rows: list[dict[str, Any]] = found.to_pylist()
        except Exception as error:
            if not _is_delta_error(error):
                raise
            raise self._unreadable(error) from error
        return rows

    def _unreadable(self, error: Exception) -> TableError:
        # Reopen at the next refresh: the log may be repaired by then.
        self._table = None
        return TableError(
            f"can't read table {self.name} in {self._tables}: {first_line(error)}. Check the folder given by --tables"
        )


class _RecentRows:
    """Rows of a table's newer files. Files never change, so each is read once.

    deltalake's own data set opens every file of the table, which takes a second per thousand files.
    """

    def __init__(self, followed: FollowedTable, columns: Sequence[str]) -> None:
        self._followed, self._columns = followed, columns
        self._paths: set[str] = set()
        self._rows: list[dict[str, Any]] = []

    def since(self, column: str, time: datetime) -> list[dict[str, Any]]:
        """Return at least all rows whose `column` is `time` or later: skips files whose statistics exclude them.

        Raises:
            TableError: If they can't be read.
        """
        files = data_files(self._followed.table)
        if len(self._paths) > _MAX_FILES or not self._paths <= set(files["path"].to_pylist()):
            # Some rows were deleted, or are in another file now.
            self._paths, self._rows = set(), []
        new = [path for path in paths_since(files, column, time) if path not in self._paths]
        if new:
            self._rows += self._followed.read_files(new, self._columns)
            self._paths.update(new)
        return self._rows


class DecisionTable:
    """Follows `throttle_decisions`."""

    def __init__(self, tables: str) -> None:
        self._followed = FollowedTable(tables, DECISIONS)
        self._rows = _RecentRows(self._followed, DECISION_COLUMNS)
        self._is_new = True
        self._announced: int | None = None
        self.bad_rows = 0

    def newest(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the newest decisions, if the table has a new version or `again` is set; see `DecisionSource`.

        Raises:
            TableError: If the table can't be read.
        """
        if not (self._followed.refresh() or self._is_new or again):
            return []
        now = to_time(now_ms)
        rows = self._rows.since("throttled_until", now)
        # `newest_decisions` leaves out rows without times.
        times = [(row["decided_at"], row["throttled_until"]) for row in rows]
        first = min((decided for decided, until in times if decided and until and until > now), default=None)
        # A row that shortens one of them is newer, and may itself be past.
        rows = self._rows.since("decided_at", first) if first else []
        # Only now: rows that could not be read must be read again.
        self._is_new = False
        self.bad_rows = sum(not is_credible(row, now_ms) for row in rows)
        return newest_decisions(rows, now_ms)

    def has_news(self) -> bool:
        """Return whether the table has a new version; false where it is not in a local folder."""
        before, self._announced = self._announced, self._followed.next_version()
        return self._announced not in (None, before)


class ActionTable:
    """Reads and writes `enforcement_actions`."""

    def __init__(self, tables: str) -> None:
        self._tables = tables
        self._followed = FollowedTable(tables, ACTIONS)
        self._has_changed = True
        self._sequence = count()

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Append records, all or none.

        Raises:
            TableError: If they could not be written.
        """
        rows = pa.Table.from_pylist(
            [action_row(record, next(self._sequence)) for record in records], schema=row_schema(ACTIONS)
        )
        try:
            before = self._followed.table.version()
            append_rows(self._tables, ACTIONS, rows)
        except Exception as error:
            if not (isinstance(error, TableError) or _is_delta_error(error)):
                raise
            path = table_path(self._tables, ACTIONS)
            msg = f"can't write {path} ({first_line(error)}): no quota is changed without it. Check --tables"
            raise TableError(msg) from error
        self._followed.refresh()
        if self._followed.table.version() != before + 1:
            # Another process wrote in between.
            self._has_changed = True

    def read(self) -> list[EnforcementRecord]:
        """Return all records in the order written.

        Raises:
            TableError: If they can't be read.
        """
        self._followed.refresh()
        rows = self._followed.rows()
        self._has_changed = False
        return records_of(rows)

    def has_changed(self) -> bool:
        """Whether others have written since `read`.

        Raises:
            TableError: If the table can't be read.
        """
        self._has_changed = self._followed.refresh() or self._has_changed
        return self._has_changed


def newest_commit_ms(tables: Iterable[FollowedTable]) -> int:
    """Return when any of the tables was last written, in milliseconds since the epoch."""
    newest = 0
    for table in tables:
        table.refresh()
        newest = max(newest, table.last_commit_ms())
    return newest


def _is_delta_error(error: Exception) -> bool:
    from deltalake.exceptions import DeltaError

    # The last two: timestamps out of Python's range.
    return isinstance(error, DeltaError | OSError | pa.ArrowException | ValueError | OverflowError)

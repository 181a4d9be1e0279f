"""Follows tables in a folder or object store, and reads each new data file once."""

import os.path
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tables.errors import TableError, TableNotFoundError, first_line
from tables.schema.specs import TABLES
from tables.store.facts import data_files, paths_since
from tables.store.path_tables import ask, is_delta_error, open_table, table_path
from tables.store.values import Row

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAX_FILES = 1000
"""Maximum number of files whose rows are kept in memory."""


class FollowedTable:
    """A followed table, opened on first use."""

    def __init__(self, tables: str, name: str, columns: Sequence[str] = ()) -> None:
        self._tables, self.name, self._columns = tables, name, list(columns) or TABLES[name].schema.names
        self._folder = table_path(tables, name)
        self._table: DeltaTable | None = None
        self._announced: int | None = None
        self._kept_paths: set[str] = set()
        self._kept: list[Row] = []
        self._known_paths: set[str] | None = None
        # Hashes of the returned rows, because a compaction writes rows again, into a new file.
        self._seen: set[int] = set()

    @property
    def table(self) -> "DeltaTable":
        """The table, as of the last refresh."""
        if self._table is None:
            self._table = open_table(self._tables, self.name)
        return self._table

    def refresh(self) -> bool:
        """Advance to the newest version; return whether the version changed."""
        # deltalake reports no change if the folder is gone or can't be read (EACCES, ESTALE), so open the table anew to
        # get the error. `os.path.isdir` is False in both cases, but `Path.is_dir` may raise.
        log = Path(self._folder, "_delta_log")
        if self._table is None or ("://" not in self._tables and not os.path.isdir(log)):
            self._table = None
            return self.table is not None
        before = self._table.version()
        try:
            self._table.update_incremental()
        except Exception as error:
            if not is_delta_error(error):
                raise
            # Log cleanup may have deleted files that only the open table needs, so reopen the table.
            self._table = None
            return self.table is not None
        return self._table.version() != before

    def has_news(self) -> bool:
        """Return True once per new commit in a local log; always False in an object store."""
        if self._table is None or "://" in self._tables:
            return False
        version = self._table.version() + 1
        commit = Path(self._folder, "_delta_log", f"{version:020}.json")
        before, self._announced = self._announced, version if os.path.exists(commit) else None
        return self._announced not in (None, before)

    def version(self) -> int:
        """Return the version of the last refresh."""
        return self.table.version()

    def last_write_ms(self) -> int:
        """Return the newest version's time."""
        self.refresh()
        try:
            newest = self.table.history(1)
        except Exception as error:
            if not is_delta_error(error):
                raise
            raise self._unreadable(error) from error
        if not newest:
            self._table = None
            msg = f"table {self.name} in {self._tables} no longer has a Delta log: check the folder given by --tables"
            raise TableNotFoundError(msg)
        return int(newest[0]["timestamp"])

    def rows(self) -> list[Row]:
        """Return all rows."""
        try:
            return ask(self.table, "SELECT * FROM t")
        except Exception as error:
            if not is_delta_error(error):
                raise
            raise self._unreadable(error) from error

    def since(self, column: str, time: datetime) -> list[Row]:
        """Return all rows whose `column` is `time` or later, and perhaps earlier rows."""
        files = data_files(self.table)
        if len(self._kept_paths) > _MAX_FILES or not self._kept_paths <= set(files["path"].to_pylist()):
            # Too many files are kept, or rows were deleted or moved to another file.
            self._kept_paths, self._kept = set(), []
        new = [path for path in paths_since(files, column, time) if path not in self._kept_paths]
        if new:
            self._kept += self.read_files(new)
            self._kept_paths.update(new)
        return self._kept

    def new_rows(self, column: str, since: datetime | None) -> list[Row]:
        """Return the rows that no earlier call returned; see `Followed.new_rows`."""
        self.refresh()
        files = data_files(self.table)
        paths = set(files["path"].to_pylist())
        wanted = paths if since is None else paths & set(paths_since(files, column, since))
        is_first = self._known_paths is None
        rows = self.read_files(sorted(wanted - (self._known_paths or set())))
        # Store the paths only after reading, so that a failed read is repeated.
        self._known_paths = paths
        found = [row for row in rows if since is None or (row[column] and row[column] >= since)]
        fresh = unseen(found, self._seen, column)
        return [] if is_first and since is None else fresh

    def read_files(self, files: list[str]) -> list[Row]:
        """Return the rows of data files. deltalake's own data set would open all files."""
        if not files:
            return []
        import pyarrow.dataset as ds

        try:
            found = ds.dataset(
                list(map(unquote, files)) if "://" not in self._tables else files,
                TABLES[self.name].schema,
                "parquet",
                self._storage(),
            ).to_table(columns=self._columns)
            rows: list[Row] = found.to_pylist(maps_as_pydicts="lossy")
        except Exception as error:
            if not is_delta_error(error):
                raise
            raise self._unreadable(error) from error
        return rows

    def _storage(self) -> Any:
        from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

        if "://" not in self._tables:
            # This file system runs no Python in threads. A process that ends before such a thread would abort.
            return SubTreeFileSystem(self._folder, LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return PyFileSystem(DeltaStorageHandler(self.table.table_uri))

    def _unreadable(self, error: Exception) -> TableError:
        # Reopen the table at the next refresh, because the log may be repaired by then.
        self._table = None
        return TableError(
            f"can't read table {self.name} in {self._tables}: {first_line(error)}. Check the folder given by --tables"
        )


def unseen(rows: Iterable[Row], seen: set[int], column: str) -> list[Row]:
    """Return the rows whose hashes are not in `seen`, sorted by `column`. Add all hashes to `seen`."""
    keyed = {hash(repr(sorted(row.items()))): row for row in rows}
    found = [row for key, row in keyed.items() if key not in seen]
    seen.update(keyed)
    return sorted(found, key=lambda row: (row[column] is not None, str(row[column])))

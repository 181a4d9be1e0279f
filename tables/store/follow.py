"""Follows a table that others append to: each read returns the rows that came since the last one."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from tables.errors import TableError, first_line
from tables.store import engines
from tables.store.facts import data_files, paths_since
from tables.store.path_tables import is_catalog, open_table, table_path

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FILES = "SELECT * FROM read_parquet($files, union_by_name = true, hive_partitioning = false)"
_SINCE = "SELECT * FROM {table} WHERE {column} >= :since"
_NEWEST = "SELECT max({column}) AS newest FROM {table}"


class NewRows(Protocol):
    """A followed table."""

    def read(self) -> list[dict[str, Any]]:
        """Return the rows since the last call, ordered by time.

        Raises:
            TableError: If the table can't be read.
            CatalogError: If the catalog refuses.
        """


@contextmanager
def new_rows(tables: str, name: str, column: str, since: datetime | None) -> Iterator[NewRows]:
    """Follow a table.

    A table in a folder is followed by its files: only those that are new are read. In a catalog, each read is a query
    of the rows at or after the newest that was seen: one that is dated earlier is missed.

    Args:
        tables: Folder of the tables, or `catalog.schema`.
        name: Of the table.
        column: Of its time.
        since: Rows before this time are left out; None for all that there are now.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If it can't be read.
        CatalogError: If the catalog can't be reached.
    """
    if is_catalog(tables):
        with engines.engine(tables) as engine:
            newest = engine.execute(_NEWEST.format(column=column, table=name)).rows[0][0] if since is None else since
            rows = _CatalogRows(engine, name, column, newest)
            if since is None:
                rows.read()
            yield rows
        return
    followed = _PathRows(tables, name, column, since)
    if since is None:
        followed.read()
    yield followed


@dataclass
class _PathRows:
    tables: str
    name: str
    column: str
    since: datetime | None
    table: "DeltaTable | None" = None
    known: set[str] = field(default_factory=set)
    # A compaction writes rows again, into a new file.
    seen: set[int] = field(default_factory=set)

    def read(self) -> list[dict[str, Any]]:
        table = self._newest()
        files = data_files(table)
        paths = set(files["path"].to_pylist())
        wanted = paths if self.since is None else paths & set(paths_since(files, self.column, self.since))
        rows = self._rows(table, sorted(wanted - self.known))
        # Only now: what could not be read must be read again.
        self.known = paths
        found = [row for row in rows if self.since is None or (row[self.column] and row[self.column] >= self.since)]
        return _unseen(found, self.seen, self.column)

    def _newest(self) -> "DeltaTable":
        from deltalake.exceptions import DeltaError

        try:
            if self.table is None:
                self.table = open_table(self.tables, self.name)
            else:
                self.table.update_incremental()
        except (DeltaError, OSError):
            # Log cleanup may have removed what the open table needs; a reopened one does not need it.
            self.table = open_table(self.tables, self.name)
        return self.table

    def _rows(self, table: "DeltaTable", paths: list[str]) -> list[dict[str, Any]]:
        import duckdb

        if not paths:
            return []
        if "://" in self.tables:
            return _remote_rows(table, paths)
        folder = Path(table_path(self.tables, self.name)).absolute()
        try:
            with duckdb.connect(":memory:") as connection:
                connection.execute("SET TimeZone = 'UTC'")
                result = connection.execute(_FILES, {"files": [str(folder / unquote(path)) for path in paths]})
                names = [column[0] for column in result.description or ()]
                return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
        except duckdb.Error as error:
            msg = f"can't read table {self.name} in {self.tables}: {first_line(error)}. Check --tables"
            raise TableError(msg) from error


def _remote_rows(table: "DeltaTable", paths: list[str]) -> list[dict[str, Any]]:
    import pyarrow.dataset as ds
    from deltalake.fs import DeltaStorageHandler
    from pyarrow import fs

    storage = fs.PyFileSystem(DeltaStorageHandler(table.table_uri))
    rows: list[dict[str, Any]] = ds.dataset(paths, format="parquet", filesystem=storage).to_table().to_pylist()
    return rows


@dataclass
class _CatalogRows:
    engine: engines.Engine
    name: str
    column: str
    since: datetime | None
    seen: set[int] = field(default_factory=set)

    def read(self) -> list[dict[str, Any]]:
        if self.since is None:
            # The table was empty.
            newest = self.engine.execute(_NEWEST.format(column=self.column, table=self.name)).rows[0][0]
            if newest is None:
                return []
            self.since = datetime.min.replace(tzinfo=newest.tzinfo)
        select = _SINCE.format(column=self.column, table=self.name)
        rows = self.engine.execute(select, {"since": self.since}).records()
        self.since = max([self.since, *(row[self.column] for row in rows)])
        return _unseen(rows, self.seen, self.column)


def _unseen(rows: Iterable[dict[str, Any]], seen: set[int], column: str) -> list[dict[str, Any]]:
    """Return the rows not seen yet, by time, and remember them."""
    keyed = {hash(repr(sorted(row.items()))): row for row in rows}
    found = [row for key, row in keyed.items() if key not in seen]
    seen.update(keyed)
    return sorted(found, key=lambda row: (row[column] is not None, str(row[column])))

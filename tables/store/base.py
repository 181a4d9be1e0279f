"""The interface of a store of tables, in a folder or in a catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tables.errors import TableError, TableNotFoundError
from tables.schema.specs import VERSION_PROPERTY
from tables.schema.views import SETTINGS, mentioned, needed_views, views
from tables.store.values import ALL_ROWS, SETTINGS_TABLE, StreamSettings, require_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from typing_extensions import Self

    from tables.schema.specs import TableSpec
    from tables.store.kept_files import KeptTables
    from tables.store.rights import Right
    from tables.store.values import Answer, ColumnFacts, Row, RowFilter, TableCommit, TableFacts, Upkeep, UpkeepPlan


class Relations(Protocol):
    """Tables and views to query several times."""

    missing: dict[str, str]
    """Missing tables with the remedy for each."""

    def settings(self) -> StreamSettings:
        """Return the settings of the stream."""

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a SELECT with `:name` parameter markers."""


class Followed(Protocol):
    """A table that others append to. Methods raise `TableError` if it can't be read."""

    def refresh(self) -> bool:
        """Advance to the newest version; return whether there was one."""

    def has_news(self) -> bool:
        """Return True once per new version that a cheap check finds. Without such a check, always return False."""

    def version(self) -> int:
        """Return the version of the last refresh."""

    def last_write_ms(self) -> int:
        """Return when the newest version was written, in milliseconds since the epoch."""

    def since(self, column: str, time: datetime) -> list[Row]:
        """Return at least all rows whose `column` is `time` or later."""

    def rows(self) -> list[Row]:
        """Return all rows."""

    def new_rows(self, column: str, since: datetime | None) -> list[Row]:
        """Return the rows that no earlier call returned, ordered by `column`.

        Args:
            column: Time of a row.
            since: Rows before this time are left out. With None, the first call returns no rows, and marks existing
                rows as returned.
        """


class TableStore(ABC):
    """The tables of one folder or catalog.

    Methods raise `TablesError` if the storage can't be reached or rejects an operation. Use the store as a context
    manager. It connects on first use, and closes the connection at the end.
    """

    needs_session: ClassVar[bool] = False
    """Whether a stream reaches the tables only through its Spark session."""
    poll_seconds: ClassVar[float] = 1.0
    """Default interval between reads of a followed table."""
    watch_seconds: ClassVar[float] = 0.2
    """Default interval between an enforcer's reads of the decisions."""
    look: ClassVar[tuple[str, ...]]
    """Commands that show whether the stream and the taps run."""

    def __init__(self, tables: str) -> None:
        self.tables = tables
        self._settings: StreamSettings | None = None

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection if it is open."""
        self._settings = None

    @abstractmethod
    def create(self) -> dict[str, bool]:
        """Create missing tables; return for each table whether it was created."""

    @abstractmethod
    def ensure_tables(self, having: str | None = None) -> None:
        """Create missing path tables. In a catalog, only the stream and `tables create` create tables.

        Args:
            having: A table that must already exist. If it does not, no table is created.
        """

    @abstractmethod
    def existing(self) -> list[str]:
        """Return the names of the tables that exist."""

    def require_known_version(self, name: str) -> None:
        """Check that no newer version created a table.

        Raises:
            TableVersionError: If a newer version created the table.
        """
        require_version(self.properties(name).get(VERSION_PROPERTY, "0"), f"{name} in {self.tables}")

    @abstractmethod
    def table_id(self, name: str) -> str:
        """Return the id that Delta gave a table when it was created."""

    @abstractmethod
    def query(self, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run one SELECT over tables and views. Over path tables, it can't reach other files or the network.

        Args:
            sql: One SELECT, with `:name` parameter markers. A catalog also takes DESCRIBE; path tables also take
                EXPLAIN, DESCRIBE and SHOW.
            now: Present time of the views; a catalog uses its own clock.
            parameters: Values of the markers.

        Raises:
            QueryError: If the query is not one SELECT, or fails.
            TableNotFoundError: If the query names a table that does not exist.
        """

    @abstractmethod
    def relations(
        self, now: datetime, rows: Mapping[str, RowFilter], kept: KeptTables | None = None
    ) -> AbstractContextManager[Relations]:
        """Open tables for several trusted queries. A missing path table is empty.

        Args:
            now: Present time of the views; a catalog uses its own clock.
            rows: Filters by table. Tables without a filter are read whole.
            kept: Rows of path tables that a long-running reader has read before. A catalog ignores this argument.
        """

    @abstractmethod
    def read(self, name: str, rows: RowFilter = ALL_ROWS) -> list[Row]:
        """Return rows of a table."""

    @abstractmethod
    def follow(self, name: str, columns: Sequence[str] = ()) -> Followed:
        """Return a table to follow, which is opened on first use. `since` and `new_rows` return the given columns."""

    @abstractmethod
    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows. Columns that a row lacks are null. Appending up to 5,000 rows is atomic."""

    @abstractmethod
    def merge(
        self, name: str, keys: Sequence[str], rows: Iterable[Mapping[str, Any]], remove: Iterable[Mapping[str, Any]]
    ) -> None:
        """Insert or update rows by their keys, and delete other rows, in one commit.

        Args:
            name: Name of the table.
            keys: Columns that identify a row; null equals null.
            rows: Rows to insert or update, with all columns.
            remove: Keys of the rows to delete.
        """

    @abstractmethod
    def facts(self, spec: TableSpec) -> TableFacts:
        """Return a table's size and contents."""

    @abstractmethod
    def columns(self, spec: TableSpec) -> list[ColumnFacts]:
        """Return a table's columns, in order."""

    @abstractmethod
    def history(self, name: str, limit: int) -> list[TableCommit]:
        """Return a table's last commits, the newest first."""

    @abstractmethod
    def has_rows(self, name: str) -> bool:
        """Return whether a table has any row."""

    @abstractmethod
    def keep_up(self, spec: TableSpec, plan: UpkeepPlan, now: datetime) -> Upkeep:
        """Delete a table's expired rows, compact it, and delete files that it no longer needs."""

    def alone(self) -> AbstractContextManager[None]:
        """Hold a lock if concurrent upkeep does harm, so that only one upkeep runs at a time."""
        return nullcontext()

    @abstractmethod
    def create_views(self) -> None:
        """Create the views, and alter those whose definition has changed."""

    def create_metric_views(self) -> None:
        """Create the metric views.

        Raises:
            TableError: If the tables are in a folder.
        """
        msg = f"metric views are made in a catalog, and {self.tables} is a folder. Give --tables CATALOG.SCHEMA"
        raise TableError(msg)

    def rights(self) -> list[Right]:
        """Return the rights that a writer of the tables needs, with a way to try each.

        Raises:
            TableError: If the tables are in a folder.
        """
        msg = f"rights are granted in a catalog, and {self.tables} is a folder. Give --tables CATALOG.SCHEMA"
        raise TableError(msg)

    @abstractmethod
    def properties(self, name: str) -> Mapping[str, str]:
        """Return a table's properties."""

    @abstractmethod
    def write_settings(self, settings: StreamSettings) -> None:
        """Store the settings of the stream, for readers of the tables."""

    def settings(self) -> StreamSettings:
        """Return the settings of the stream, or the defaults if no stream has written them."""
        if self._settings is None:
            try:
                self._settings = StreamSettings.of(self.properties(SETTINGS_TABLE))
            except TableNotFoundError:
                self._settings = StreamSettings()
        return self._settings

    def window_ms(self, select: str) -> int:
        """Return the window of the stream if a SELECT, or a view that it mentions, needs it; else the default."""
        used = "\n".join(views()[name] for name in needed_views(select))
        needs = mentioned(used, ("window_ms",)) or mentioned(select, (SETTINGS, "window_ms"))
        return (self.settings() if needs else StreamSettings()).window_seconds * 1000

    @abstractmethod
    def save(self, writer: Any, name: str) -> None:
        """Run a Spark `DataFrameWriter` that appends to a table."""

    @abstractmethod
    def spark_name(self, name: str) -> str:
        """Return the name by which Spark SQL reads a table."""

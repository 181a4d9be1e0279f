"""What tables in a folder and in a catalog have in common. `path` and `catalog` open them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tables.errors import TableError, TableNotFoundError
from tables.schema.specs import VERSION_PROPERTY
from tables.schema.views import SETTINGS, mentioned, needed_views, views
from tables.store.retention import QUOTAS, SEVERAL_ROWS, keep_from, old_rows, replaced_quotas
from tables.store.values import ALL_ROWS, SETTINGS_TABLE, RowFilter, StreamSettings, TableFacts, Upkeep, require_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from typing_extensions import Self

    from tables.schema.specs import TableSpec
    from tables.store.rights import Right
    from tables.store.values import Answer, Row, TableCommit, Tidied, UpkeepPlan


class Relations(Protocol):
    """Tables and views to query several times."""

    missing: dict[str, str]
    """The error and its remedy, by name of the missing table."""

    def settings(self) -> StreamSettings:
        """Return the stream's settings."""

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a SELECT with `:name` parameter markers."""


class TableStore(ABC):
    """The tables of one folder or catalog: a context manager that connects on first use.

    Methods raise `TablesError` if the storage can't be reached or rejects an operation.
    """

    needs_session: ClassVar[bool] = False
    """Whether the stream reaches the tables only through Spark."""
    look: ClassVar[tuple[str, ...]]
    """Commands that show whether the stream and the plugins run."""

    def __init__(self, tables: str) -> None:
        self.tables = tables
        self._settings: StreamSettings | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._settings = None

    @abstractmethod
    def create(self) -> dict[str, bool]:
        """Create missing tables; return whether each table is new."""

    @abstractmethod
    def ensure_tables(self, having: str | None = None) -> None:
        """Raise an error if the table `having` is missing, else create missing tables. In a catalog, do nothing."""

    @abstractmethod
    def existing(self) -> list[str]:
        """Return the names of the existing tables."""

    @abstractmethod
    def table_id(self, name: str) -> str:
        """Return a table's Delta id."""

    @abstractmethod
    def properties(self, name: str) -> Mapping[str, str]:
        """Return a table's properties."""

    @abstractmethod
    def set_properties(self, name: str, wanted: Mapping[str, str]) -> None:
        """Set properties of a table, unless the table has them."""

    @abstractmethod
    def query(self, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run one SELECT over tables and views. In a folder, a query reaches no other files and no network.

        `sql` has `:name` parameter markers. DESCRIBE is allowed, and in a folder also EXPLAIN and SHOW. A catalog uses
        its own clock instead of `now`.

        Raises:
            QueryError: If the query is not one SELECT, or fails.
            TableNotFoundError: If the query names a table that does not exist.
        """

    @abstractmethod
    def relations(self, now: datetime, rows: Mapping[str, RowFilter]) -> AbstractContextManager[Relations]:
        """Open tables for several queries of this project. Tables without a filter in `rows` are read whole.

        In a folder, a missing table is empty. A catalog uses its own clock instead of `now`.
        """

    @abstractmethod
    def read(self, name: str, rows: RowFilter = ALL_ROWS) -> list[Row]:
        """Return rows of a table."""

    @abstractmethod
    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows. Columns that a row lacks are null. An append of at most 5,000 rows is atomic."""

    @abstractmethod
    def merge(
        self, name: str, keys: Sequence[str], rows: Iterable[Mapping[str, Any]], remove: Iterable[Mapping[str, Any]]
    ) -> None:
        """Insert or update `rows`, and delete the rows whose keys are in `remove`, in one commit.

        `rows` have all columns. `keys` are the columns that identify a row. Null equals null.
        """

    @abstractmethod
    def delete(self, name: str, rows: RowFilter) -> int:
        """Delete rows, and return their number."""

    @abstractmethod
    def tidy(self, name: str, plan: UpkeepPlan, now: datetime) -> Tidied:
        """Compact a table, and delete files that nothing needs."""

    @abstractmethod
    def extent(self, name: str) -> tuple[int, int, int]:
        """Return a table's version, number of data files, and their size in bytes."""

    @abstractmethod
    def history(self, name: str, limit: int) -> list[TableCommit]:
        """Return a table's last commits, newest first."""

    @abstractmethod
    def save(self, writer: Any, name: str) -> None:
        """Run a Spark `DataFrameWriter` that appends to a table."""

    @abstractmethod
    def spark_name(self, name: str) -> str:
        """Return the name by which Spark SQL reads a table."""

    def has_rows(self, name: str) -> bool:
        """Return whether a table has any row."""
        return bool(self.read(name, RowFilter("TRUE LIMIT 1", columns=("1 AS one",))))

    def facts(self, spec: TableSpec) -> TableFacts:
        """Return a table's size and contents."""
        bounds = [f"{each}({spec.time_column}) AS {each}" for each in ("min", "max") if spec.time_column]
        (counted,) = self.read(spec.name, RowFilter(columns=("count(*) AS row_count", *bounds)))
        version, files, size = self.extent(spec.name)
        oldest, newest = counted.get("min"), counted.get("max")
        return TableFacts(spec.name, version, counted["row_count"], files, size, oldest, newest)

    def keep_up(self, spec: TableSpec, plan: UpkeepPlan, now: datetime) -> Upkeep:
        """Delete a table's expired rows, compact the table, and delete unneeded files."""
        before = self.facts(spec)
        expired = self._expired(spec, plan, now, before.oldest)
        # Delete first, so that expired rows are not compacted.
        deleted = 0
        if expired is not None:
            deleted = self._count(spec.name, expired) if plan.dry_run else self.delete(spec.name, expired)
        tidied = self.tidy(spec.name, plan, now)
        return Upkeep(before, before if plan.dry_run else self.facts(spec), deleted, tidied)

    def _expired(self, spec: TableSpec, plan: UpkeepPlan, now: datetime, oldest: datetime | None) -> RowFilter | None:
        if spec.name == QUOTAS:
            return replaced_quotas(self.read(QUOTAS, SEVERAL_ROWS))
        before = keep_from(now, plan.days[spec.name]) if spec.time_column else None
        return None if before is None or oldest is None or oldest >= before else old_rows(spec, before)

    def _count(self, name: str, rows: RowFilter) -> int:
        (counted,) = self.read(name, RowFilter(rows.condition, rows.values, ("count(*) AS row_count",)))
        return int(counted["row_count"])

    def alone(self) -> AbstractContextManager[None]:
        """Return a lock that allows one `tables maintain` at a time. It does nothing if concurrent runs are safe."""
        return nullcontext()

    @abstractmethod
    def create_views(self) -> None:
        """Create missing views, and alter changed views."""

    def create_metric_views(self) -> None:
        """Create the metric views.

        Raises:
            TableError: If the tables are in a folder.
        """
        msg = f"metric views are made in a catalog, and {self.tables} is a folder. Give --tables CATALOG.SCHEMA"
        raise TableError(msg)

    def rights(self) -> list[Right]:
        """Return the rights that a writer of the tables needs.

        Raises:
            TableError: If the tables are in a folder.
        """
        msg = f"rights are granted in a catalog, and {self.tables} is a folder. Give --tables CATALOG.SCHEMA"
        raise TableError(msg)

    def require_known_version(self, name: str) -> None:
        """Raise `TableVersionError` if a newer release created the table. In a folder, also check its features."""
        require_version(self.properties(name).get(VERSION_PROPERTY, "0"), f"{name} in {self.tables}")

    def write_settings(self, settings: StreamSettings) -> None:
        """Store the stream's settings for readers of the tables, and bring the views up to date."""
        self.set_properties(SETTINGS_TABLE, settings.properties())
        self._settings = settings
        self.create_views()

    def settings(self) -> StreamSettings:
        """Return the stream's settings, or defaults if no stream has written settings."""
        if self._settings is None:
            try:
                self._settings = StreamSettings.parse(self.properties(SETTINGS_TABLE))
            except TableNotFoundError:
                self._settings = StreamSettings()
        return self._settings

    def window_ms(self, select: str) -> int:
        """Return the stream's window in ms if a SELECT or its views need the window; else the default window."""
        used = "\n".join(views()[name] for name in needed_views(select))
        needs = mentioned(used, ("window_ms",)) or mentioned(select, (SETTINGS, "window_ms"))
        return (self.settings() if needs else StreamSettings()).window_seconds * 1000

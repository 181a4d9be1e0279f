"""What a store of tables offers, whether they are in a folder or in a catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from quota.config import QuotaConfig
from tables.errors import TableError, TableNotFoundError, TableVersionError
from tables.schema.specs import TABLES_VERSION, VERSION_PROPERTY
from tables.schema.views import SETTINGS, mentioned, needed_views, views

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from typing_extensions import Self

    from tables.schema.specs import TableSpec

Row = dict[str, Any]

SETTINGS_TABLE = "producer_id_metrics"
"""The table whose properties hold the settings of the stream."""
_WINDOW, _BURST = "pidQuota.windowSeconds", "pidQuota.burstWindows"


@dataclass(frozen=True)
class Answer:
    """The result of a query: column names, and rows of Python values in the same order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[Row]:
        """Return each row as a dictionary."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class RowFilter:
    """Selects the rows of a table to read.

    Attributes:
        condition: In SQL, with `:name` parameter markers.
        values: By name; texts and aware times.
        columns: Columns to read; all if empty.
        newer_than: A column and a time that it exceeds in all these rows, to skip files.
    """

    condition: str = "TRUE"
    values: Mapping[str, str | datetime] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    newer_than: tuple[str, datetime] | None = None

    def select(self, table: str) -> str:
        """Return the SELECT of these rows."""
        return " ".join(("SELECT", ", ".join(self.columns) or "*", "FROM", table, "WHERE", self.condition))


ALL_ROWS = RowFilter()


@dataclass(frozen=True)
class StreamSettings:
    """Settings of the stream that readers of the tables need.

    Attributes:
        window_seconds: Length of the quota's window.
        burst_windows: Size of a full bucket of a quota without a burst, in windows of quota.
    """

    window_seconds: int = QuotaConfig.window_seconds
    burst_windows: float = QuotaConfig.burst_windows

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> StreamSettings:
        """Return the settings in a table's properties; the stream's defaults where no stream has written them."""
        default = cls()
        return cls(
            int(properties.get(_WINDOW, default.window_seconds)), float(properties.get(_BURST, default.burst_windows))
        )

    def properties(self) -> dict[str, str]:
        """Return the table properties that hold the settings."""
        return {_WINDOW: str(self.window_seconds), _BURST: str(self.burst_windows)}


@dataclass(frozen=True)
class TableFacts:
    """A table's size and contents now.

    Attributes:
        table: Its name.
        version: Newest version.
        rows: Number of rows.
        files: Data files of this version.
        size_bytes: Their size.
        oldest: Earliest value of its time column; None without such a column or rows.
        newest: Latest value of that column.
    """

    table: str
    version: int
    rows: int
    files: int
    size_bytes: int
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True)
class ColumnFacts:
    """A column as the table's own metadata describes it."""

    name: str
    kind: str
    nullable: bool
    comment: str


@dataclass(frozen=True)
class TableCommit:
    """A commit in a table's log.

    Attributes:
        version: The version that it made.
        committed_ms: Its time in milliseconds since the epoch.
        metadata: Its `userMetadata`; empty without.
    """

    version: int
    committed_ms: int
    metadata: str


@dataclass(frozen=True)
class UpkeepPlan:
    """What upkeep does.

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


class Relations(Protocol):
    """Tables and views to query several times."""

    missing: dict[str, str]
    """Missing tables, and what to do about each."""

    def settings(self) -> StreamSettings:
        """Return the settings of the stream."""

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a SELECT with `:name` parameter markers."""


class Followed(Protocol):
    """A table that others append to. Methods raise `TableError` if it can't be read."""

    def refresh(self) -> bool:
        """Advance to the newest version; return whether there was one."""

    def has_news(self) -> bool:
        """Return whether a cheap check finds a new version, once per version; false where there is no such check."""

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
            since: Rows before this time are left out. With None the first call returns nothing: what is there by then
                is known.
        """


class TableStore(ABC):
    """The tables of one place. Methods raise `TablesError` if that can't be reached, or refuses.

    Use it as a context manager: it opens a connection when it needs one, and closes it at the end.
    """

    needs_session: ClassVar[bool] = False
    """Whether a stream reaches the tables by its Spark session only."""
    poll_seconds: ClassVar[float] = 1.0
    """Default interval between reads of a followed table."""
    look: ClassVar[tuple[str, ...]]
    """Commands that show whether the stream and the taps run."""

    def __init__(self, tables: str) -> None:
        self.tables = tables
        self._settings: StreamSettings | None = None

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection, if there is one."""
        self._settings = None

    @abstractmethod
    def create(self) -> dict[str, bool]:
        """Create missing tables; return which of all tables were created."""

    @abstractmethod
    def ensure_tables(self, having: str | None = None) -> None:
        """Create missing path tables; those of a catalog are left to the stream and to `tables create`.

        Args:
            having: A table that must exist already.
        """

    @abstractmethod
    def existing(self) -> list[str]:
        """Return the names of the tables that exist."""

    def require_known_version(self, name: str) -> None:
        """Refuse a table that a newer version created.

        Raises:
            TableVersionError: If a newer version created it.
        """
        require_version(self.properties(name).get(VERSION_PROPERTY, "0"), f"{name} in {self.tables}")

    @abstractmethod
    def table_id(self, name: str) -> str:
        """Return the id that Delta gave a table when it was created."""

    @abstractmethod
    def query(self, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run one SELECT over tables and views, which can't reach files, the network or Python objects.

        Args:
            sql: One SELECT (or EXPLAIN, DESCRIBE, SHOW), with `:name` parameter markers.
            now: Present time of the views; a catalog uses its own clock.
            parameters: Values of the markers.

        Raises:
            QueryError: If the query is not one SELECT, or is refused.
            TableNotFoundError: If it names a table that does not exist.
        """

    @abstractmethod
    def relations(self, now: datetime, rows: Mapping[str, RowFilter]) -> AbstractContextManager[Relations]:
        """Open tables for several queries of our own; a missing path table is empty.

        Args:
            now: Present time of the views; a catalog uses its own clock.
            rows: By table; tables not named are read whole.
        """

    @abstractmethod
    def read(self, name: str, rows: RowFilter = ALL_ROWS) -> list[Row]:
        """Return rows of a table."""

    @abstractmethod
    def follow(self, name: str, columns: Sequence[str] = ()) -> Followed:
        """Return a table to follow; it is opened when first used, and its rows have all columns if none are named."""

    @abstractmethod
    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows; a column that a row lacks is null. Up to 5,000 rows are appended all or none."""

    @abstractmethod
    def merge(
        self, name: str, keys: Sequence[str], rows: Iterable[Mapping[str, Any]], remove: Iterable[Mapping[str, Any]]
    ) -> None:
        """Insert or update rows by their keys, and delete others, in one commit.

        Args:
            name: Of the table.
            keys: Columns that name a row; null equals null.
            rows: All their columns.
            remove: The keys of rows to delete.
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
        """Delete a table's expired rows, compact it, and delete what it no longer needs."""

    def alone(self) -> AbstractContextManager[None]:
        """Hold a lock, so that one upkeep runs at a time, where concurrent ones do harm."""
        return nullcontext()

    def create_metric_views(self) -> None:
        """Create the metric views.

        Raises:
            TableError: If the tables are in a folder.
        """
        msg = f"metric views are made in a catalog, and {self.tables} is a folder. Give --tables CATALOG.SCHEMA"
        raise TableError(msg)

    @abstractmethod
    def properties(self, name: str) -> Mapping[str, str]:
        """Return a table's properties."""

    @abstractmethod
    def write_settings(self, settings: StreamSettings) -> None:
        """Store the settings of the stream, for readers of the tables."""

    def settings(self) -> StreamSettings:
        """Return the settings of the stream; the defaults if no stream has written them."""
        if self._settings is None:
            try:
                self._settings = StreamSettings.of(self.properties(SETTINGS_TABLE))
            except TableNotFoundError:
                self._settings = StreamSettings()
        return self._settings

    def window_ms(self, select: str) -> int:
        """Return the window of the stream, if a SELECT or a view that it mentions needs it; else the default."""
        used = "\n".join(views()[name] for name in needed_views(select))
        needs = mentioned(used, ("window_ms",)) or mentioned(select, (SETTINGS, "window_ms"))
        return (self.settings() if needs else StreamSettings()).window_seconds * 1000

    @abstractmethod
    def save(self, writer: Any, name: str) -> None:
        """Run a Spark `DataFrameWriter` that appends to a table."""

    @abstractmethod
    def spark_name(self, name: str) -> str:
        """Return the name by which Spark SQL reads a table."""


def require_version(version: str, place: str) -> None:
    """Refuse tables of a newer version.

    Args:
        version: The version in the table's properties, "0" without one.
        place: Of the table.

    Raises:
        TableVersionError: If a newer version created the table.
    """
    if not version.isdecimal() or int(version) > TABLES_VERSION:
        msg = (
            f"table {place} is of version {version}, and this pid-quota knows versions up to {TABLES_VERSION}: "
            "install the newer one, or choose another place with --tables"
        )
        raise TableVersionError(msg)

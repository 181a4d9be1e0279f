"""Values that a store of tables takes and returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quota.config import QuotaConfig
from tables.errors import TableVersionError
from tables.schema.specs import TABLES_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Row = dict[str, Any]

SETTINGS_TABLE = "producer_id_metrics"
"""The table whose properties hold the settings of the stream."""
_WINDOW, _BURST = "pidQuota.windowSeconds", "pidQuota.burstWindows"
_SERVERS = "pidQuota.bootstrapServers"


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
        condition: SQL condition with `:name` parameter markers.
        values: Values of the markers: strings and aware datetimes.
        columns: Columns to read; all if empty.
        newer_than: A column and a time. Every selected row has a later time in the column, so older files can be
            skipped.
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
        burst_windows: Tokens of a full bucket as a multiple of the rate, for quotas without a burst.
        bootstrap_servers: Brokers that the stream was started with. They distinguish clusters.
    """

    window_seconds: int = QuotaConfig.window_seconds
    burst_windows: float = QuotaConfig.burst_windows
    bootstrap_servers: str = ""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> StreamSettings:
        """Return the settings in a table's properties. A setting that is missing there has the stream's default."""
        default = cls()
        return cls(
            int(properties.get(_WINDOW, default.window_seconds)),
            float(properties.get(_BURST, default.burst_windows)),
            properties.get(_SERVERS, default.bootstrap_servers),
        )

    def properties(self) -> dict[str, str]:
        """Return the table properties that hold the settings."""
        servers = {_SERVERS: self.bootstrap_servers} if self.bootstrap_servers else {}
        return {_WINDOW: str(self.window_seconds), _BURST: str(self.burst_windows)} | servers


@dataclass(frozen=True)
class TableFacts:
    """A table's size and contents now.

    Attributes:
        table: Name of the table.
        version: Newest version.
        rows: Number of rows.
        files: Number of data files.
        size_bytes: Size of the data files.
        oldest: Earliest value of the time column; None if there is no such column or no row.
        newest: Latest value of the time column; None as for `oldest`.
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
        version: Version that the commit created.
        committed_ms: Time of the commit in milliseconds since the epoch.
        metadata: The commit's `userMetadata`, or empty.
    """

    version: int
    committed_ms: int
    metadata: str


@dataclass(frozen=True)
class UpkeepPlan:
    """A plan for upkeep.

    Attributes:
        days: Retention of each table in days; 0 keeps rows forever.
        vacuum_hours: Retention of unreferenced files, for readers of older versions.
        dry_run: Whether to only report what would be done.
    """

    days: Mapping[str, int]
    vacuum_hours: int
    dry_run: bool = False


@dataclass(frozen=True)
class Upkeep:
    """Changes that upkeep made to a table, or would make. None means that the storage does not report a number.

    Attributes:
        before: Facts before upkeep.
        after: Facts after upkeep.
        deleted_rows: Expired rows that were deleted.
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


def require_version(version: str, place: str) -> None:
    """Check that no newer version created a table.

    Args:
        version: The version in the table's properties; "0" if there is none.
        place: Name and place of the table.

    Raises:
        TableVersionError: If a newer version created the table.
    """
    if not version.isdecimal() or int(version) > TABLES_VERSION:
        msg = (
            f"table {place} is of version {version}, and this pid-quota knows versions up to {TABLES_VERSION}: "
            "install the newer one, or choose another place with --tables"
        )
        raise TableVersionError(msg)

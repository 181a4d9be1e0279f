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
"""The table whose properties hold the stream's settings."""
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
    """A selection of a table's rows.

    Attributes:
        condition: SQL condition with `:name` parameter markers.
        values: Values of the markers: strings and aware datetimes.
        columns: Columns to read; all if empty.
    """

    condition: str = "TRUE"
    values: Mapping[str, str | datetime] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def select(self, table: str) -> str:
        """Return the SELECT of these rows."""
        return " ".join(("SELECT", ", ".join(self.columns) or "*", "FROM", table, "WHERE", self.condition))


ALL_ROWS = RowFilter()


@dataclass(frozen=True)
class StreamSettings:
    """The stream's settings that readers of the tables need.

    Attributes:
        burst_windows: Tokens of a full bucket as a multiple of the rate, for quotas without a burst.
        bootstrap_servers: The stream's brokers, by which readers tell clusters apart.
    """

    window_seconds: int = QuotaConfig.window_seconds
    burst_windows: float = QuotaConfig.burst_windows
    bootstrap_servers: str = ""

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> StreamSettings:
        """Return the settings in a table's properties. A missing setting has the stream's default."""
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
    """A table's size and contents.

    Attributes:
        oldest, newest: Bounds of the time column; None without a time column or rows.
    """

    table: str
    version: int
    rows: int
    files: int
    size_bytes: int
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True)
class TableCommit:
    """A commit in a table's log.

    Attributes:
        committed_ms: Time of the commit.
        metadata: The commit's `userMetadata`, or empty.
    """

    version: int
    committed_ms: int
    metadata: str


@dataclass(frozen=True)
class UpkeepPlan:
    """The options of `pid-quota tables maintain`.

    Attributes:
        days: Retention of each table in days; 0 keeps rows forever.
        vacuum_hours: Hours for which unreferenced files stay.
        dry_run: Whether to report without changing anything.
    """

    days: Mapping[str, int]
    vacuum_hours: int
    dry_run: bool = False


@dataclass(frozen=True)
class Tidied:
    """The files that `pid-quota tables maintain` compacted and deleted, or would. None: the storage reports no number.

    Attributes:
        merged_files: Small files that were compacted.
        vacuumed_files: Data files that were deleted.
        log_files: Log files that were deleted, including orphaned checksums.
    """

    merged_files: int | None = None
    vacuumed_files: int | None = None
    log_files: int | None = None


@dataclass(frozen=True)
class Upkeep:
    """What `pid-quota tables maintain` changed in a table, or would change."""

    before: TableFacts
    after: TableFacts
    deleted_rows: int
    files: Tidied


def require_version(version: str, place: str) -> None:
    """Raise `TableVersionError` unless `version`, from a table's properties, is a number up to `TABLES_VERSION`."""
    if not version.isdecimal() or int(version) > TABLES_VERSION:
        msg = (
            f"table {place} is of version {version}, and this pid-quota knows versions up to {TABLES_VERSION}: "
            "install the newer one, or choose another place with --tables"
        )
        raise TableVersionError(msg)

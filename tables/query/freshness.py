"""The time since the newest row, which shows whether the stream runs.

An idle stream writes no metrics, but copies the plugins' reports to `broker_status` every half minute.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tables.store.base import TableStore
from tables.store.open import open_store
from tables.store.values import RowFilter
from tables.times import duration

STALE_AFTER_S = 180.0
"""Tables are stale after this time without a row. A stream writes one a minute, but for restarts and slow triggers."""

_TIMES = {"producer_id_metrics": "as_of", "throttle_decisions": "decided_at", "broker_status": "seen_at"}
_NEWEST = """
SELECT max(row_at) AS last_row_at
FROM (
    SELECT max(as_of) AS row_at FROM producer_id_metrics
    UNION ALL SELECT max(decided_at) FROM throttle_decisions
    UNION ALL SELECT max(seen_at) FROM broker_status
) AS newest
"""


@dataclass(frozen=True)
class Freshness:
    """The time of the newest row.

    Attributes:
        last_row_at: Time of the newest row; None without rows.
        look: Commands that show what is wrong.
    """

    last_row_at: datetime | None
    now: datetime
    look: tuple[str, ...] = ()

    @property
    def silent_seconds(self) -> float | None:
        """Seconds since the newest row; None without rows."""
        return None if self.last_row_at is None else (self.now - self.last_row_at).total_seconds()

    @property
    def is_stale(self) -> bool:
        """Whether the tables are stale."""
        return self.silent_seconds is None or self.silent_seconds > STALE_AFTER_S

    @property
    def since(self) -> str:
        """The time of the newest row in words, with the date unless the row is from today."""
        if self.last_row_at is None:
            return "no row yet"
        is_today = self.last_row_at.date() == self.now.date()
        return f"{self.last_row_at:%H:%M}" if is_today else f"{self.last_row_at:%Y-%m-%d %H:%M}"

    @property
    def advice(self) -> str:
        """A line with the commands that show what is wrong."""
        return f"look: {', then '.join(self.look)}"

    def warning(self) -> str:
        """Return a warning if the tables are stale, else an empty text.

        Examples:
            >>> noon = datetime(2026, 1, 15, 12)
            >>> Freshness(noon, noon + timedelta(minutes=36)).warning()
            'no rows since 12:00, 36 min: is the stream running?'
            >>> Freshness(noon, noon).warning(), Freshness(None, noon).warning()
            ('', 'no rows yet: is the stream running?')
        """
        if not self.is_stale:
            return ""
        if self.silent_seconds is None:
            return "no rows yet: is the stream running?"
        return f"no rows since {self.since}, {duration(self.silent_seconds)}: is the stream running?"


def read_freshness(tables: str, now: datetime) -> Freshness:
    """Read the time of the newest row of the stream's tables.

    Raises:
        TableError: If a table can't be read.
        CatalogError: If the catalog can't be reached.
    """
    hour = now - timedelta(hours=1)
    recent = {name: RowFilter(f"{column} > :hour", {"hour": hour}, (column,)) for name, column in _TIMES.items()}
    every = {name: RowFilter(columns=(column,)) for name, column in _TIMES.items()}
    with open_store(tables) as store:
        # Try the last hour first, so that older files usually stay closed.
        last = _newest(store, now, recent) or _newest(store, now, every)
        return Freshness(last, now, store.look)


def _newest(store: TableStore, now: datetime, rows: dict[str, RowFilter]) -> datetime | None:
    with store.relations(now, rows) as relations:
        found: datetime | None = relations.ask(_NEWEST).records()[0]["last_row_at"]
        return found

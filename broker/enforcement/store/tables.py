"""The enforcer's tables: decisions in, actions out."""

from collections.abc import Callable, Sequence
from itertools import count

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
from tables.errors import TableError
from tables.store.base import TableStore
from tables.store.open import open_store
from tables.times import to_time

STREAM_TABLES = ("producer_id_metrics", "throttle_decisions")


def follow_writes(store: TableStore) -> Callable[[], int]:
    """Return a function that tells when the stream last wrote, in milliseconds since the epoch."""
    followed = [store.follow(name) for name in STREAM_TABLES]
    return lambda: max(each.last_write_ms() for each in followed)


class DecisionTable:
    """Follows `throttle_decisions`: each poll asks for the table's version, and reads rows only if it is new."""

    def __init__(self, store: TableStore) -> None:
        self._followed = store.follow(DECISIONS, DECISION_COLUMNS)
        self._is_new = True
        self.bad_rows = 0

    def newest(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the newest decisions, if the table has a new version or `again` is set; see `DecisionSource`."""
        if not (self._followed.refresh() or self._is_new or again):
            return []
        # If reading fails, the next call must read the rows again.
        self._is_new = True
        now = to_time(now_ms)
        rows = self._followed.since("throttled_until", now)
        # `newest_decisions` skips rows without times.
        times = [(row["decided_at"], row["throttled_until"]) for row in rows]
        first = min((decided for decided, until in times if decided and until and until > now), default=None)
        # A row that shortens one of them is newer, and may already have expired.
        rows = self._followed.since("decided_at", first) if first else []
        self._is_new = False
        self.bad_rows = sum(not is_credible(row, now_ms) for row in rows)
        return newest_decisions(rows, now_ms)

    def has_news(self) -> bool:
        """Return whether a cheap check finds a new version; see `Followed.has_news`."""
        return self._followed.has_news()


class ActionTable:
    """Reads and writes `enforcement_actions`."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._followed = store.follow(ACTIONS)
        self._has_changed = True
        self._sequence = count()

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Append records, all or none."""
        rows = [action_row(record, next(self._sequence)) for record in records]
        try:
            before = self._followed.version()
            self._store.append(ACTIONS, rows)
        except TableError as error:
            reason = f"can't write table {ACTIONS} ({error})"
            msg = f"{reason}: no quota is changed without it. Check --tables, and MODIFY on it in a catalog"
            raise TableError(msg) from error
        self._followed.refresh()
        if self._followed.version() != before + 1:
            # Another process wrote in between.
            self._has_changed = True

    def read(self) -> list[EnforcementRecord]:
        """Return all records in the order written."""
        self._followed.refresh()
        rows = self._followed.rows()
        self._has_changed = False
        return records_of(rows)

    def has_changed(self) -> bool:
        """Whether others have written since `read`."""
        self._has_changed = self._followed.refresh() or self._has_changed
        return self._has_changed


def require_readable(tables: str) -> None:
    """Open the tables that a dry run reads, and leave them as they are."""
    with open_store(tables) as store:
        for name in STREAM_TABLES:
            store.require_known_version(name)

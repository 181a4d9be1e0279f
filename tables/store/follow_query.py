"""Follows a catalog's tables through queries."""

from collections.abc import Sequence
from datetime import datetime, timezone

from tables.store.base import TableStore
from tables.store.follow import unseen
from tables.store.values import Row, RowFilter

_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)


class FollowedQuery:
    """A followed table of a catalog: each read is a query."""

    def __init__(self, store: TableStore, name: str, columns: Sequence[str]) -> None:
        self._store, self._name, self._columns = store, name, tuple(columns)
        self._version: int | None = None
        self._from: datetime | None = None
        self._seen: set[int] = set()

    def refresh(self) -> bool:
        """Ask for the newest version; return whether the version changed."""
        (newest,) = self._store.history(self._name, 1)
        before, self._version = self._version, newest.version
        return self._version != before

    def has_news(self) -> bool:
        """Return False, because only a query finds a new version."""
        return False

    def version(self) -> int:
        """Return the version of the last refresh."""
        if self._version is None:
            self.refresh()
        return self._version or 0

    def last_write_ms(self) -> int:
        """Return the newest version's time."""
        return max((commit.committed_ms for commit in self._store.history(self._name, 1)), default=0)

    def since(self, column: str, time: datetime) -> list[Row]:
        """Return all rows whose `column` is `time` or later."""
        return self._store.read(self._name, RowFilter(f"{column} >= :since", {"since": time}, self._columns))

    def rows(self) -> list[Row]:
        """Return all rows."""
        return self._store.read(self._name)

    def new_rows(self, column: str, since: datetime | None) -> list[Row]:
        """Return unseen rows. A new row that is older than the newest seen row is missed."""
        if self._from is None:
            self._from = since
            if since is None:
                (newest,) = self._store.read(self._name, RowFilter(columns=(f"max({column}) AS newest",)))
                self._from = newest["newest"] or _EARLIEST
                self._unseen(column)
                return []
        return self._unseen(column)

    def _unseen(self, column: str) -> list[Row]:
        begin = self._from or _EARLIEST
        rows = self.since(column, begin)
        self._from = max([begin, *(row[column] for row in rows)])
        return unseen(rows, self._seen, column)

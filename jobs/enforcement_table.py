"""The enforcer's tables by `deltalake`, without a JVM: `throttle_decisions` followed, `enforcement_actions` written."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from broker.lease_targets import ThrottleDecision
from broker.leases import Action, Lease
from broker.quota_entity import QuotaEntity
from streaming.errors import TableError
from streaming.tables import TABLES, open_table, table_path

if TYPE_CHECKING:
    from deltalake import DeltaTable

DECISIONS = "throttle_decisions"
ACTIONS = "enforcement_actions"

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DECISION_COLUMNS = (
    "decision_id",
    "principal",
    "action",
    "decided_at",
    "throttled_until",
    "quota",
    "refused_pids",
    "client_ids",
)


class FollowedTable:
    """A table that others append to: tells cheaply whether there is a new version."""

    def __init__(self, tables: str, name: str) -> None:
        """Open the table.

        Args:
            tables: Folder of the tables.
            name: Of the table.

        Raises:
            TableNotFoundError: If there is no such table.
            TableError: If it can't be read.
        """
        self._tables, self.name = tables, name
        self._table = open_table(tables, name)

    @property
    def table(self) -> "DeltaTable":
        """The table, as of the last look."""
        return self._table

    def look(self) -> bool:
        """Go to the newest version; returns whether it is another than before.

        Raises:
            TableError: If the table can't be read.
        """
        before = self._table.version()
        try:
            self._table.update_incremental()
        except Exception as error:
            if not _is_delta_error(error):
                raise
            # Its log may have been cleaned up below us: a table opened anew does not need what is gone.
            self._table = open_table(self._tables, self.name)
            return True
        return self._table.version() != before

    def last_commit_ms(self) -> int:
        """Return when the newest version was written, in milliseconds since the epoch."""
        return int(self._table.history(1)[0]["timestamp"])

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows.

        Raises:
            TableError: If they can't be read.
        """
        return self._read(self._files())

    def rows_after(self, column: str, time: datetime, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return rows, and surely all whose `column` is after `time`: files that can't hold one are left out.

        deltalake's own data set opens every file of the table, which takes a second with a thousand of them.

        Raises:
            TableError: If they can't be read.
        """
        return self._read(self._files(column, time), columns)

    def _files(self, column: str | None = None, after: datetime | None = None) -> list[str]:
        files = pa.table(self._table.get_add_actions(flatten=True))
        newest = f"max.{column}"
        if newest in files.column_names:
            # Spark cuts statistics off at the millisecond.
            limit = pa.scalar(after, files.schema.field(newest).type)
            files = files.filter(pc.if_else(pc.is_null(files[newest]), True, pc.greater_equal(files[newest], limit)))
        return files["path"].to_pylist()

    def _read(self, files: list[str], columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        from deltalake.fs import DeltaStorageHandler

        storage = fs.PyFileSystem(DeltaStorageHandler(self._table.table_uri))
        try:
            found = ds.dataset(files, TABLES[self.name].schema, "parquet", storage).to_table(
                columns=list(columns) if columns else None
            )
        except Exception as error:
            if not _is_delta_error(error):
                raise
            raise _unreadable(self._tables, self.name, error) from error
        return found.to_pylist()


class DecisionTable:
    """Follows `throttle_decisions`."""

    def __init__(self, tables: str) -> None:
        """Open the table; raises as `FollowedTable`."""
        self._followed = FollowedTable(tables, DECISIONS)
        self._is_new = True

    def in_force(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the THROTTLEs that are not past, if the table has a new version or they are wanted `again`.

        Raises:
            TableError: If the table can't be read.
        """
        if not (self._followed.look() or self._is_new or again):
            return []
        now = to_time(now_ms)
        rows = self._followed.rows_after("throttled_until", now, _DECISION_COLUMNS)
        # Only now: rows that could not be read are wanted again.
        self._is_new = False
        return [_decision(row) for row in rows if row["action"] == "THROTTLE" and row["throttled_until"] > now]


class ActionTable:
    """Reads and writes `enforcement_actions`."""

    def __init__(self, tables: str) -> None:
        """Open the table; raises as `FollowedTable`."""
        self._tables = tables
        self._followed = FollowedTable(tables, ACTIONS)
        self._has_changed = True
        self._sequence = count()

    def append(self, actions: Sequence[Action]) -> None:
        """Write actions down, all or none.

        Raises:
            TableError: If they are not written.
        """
        from deltalake import write_deltalake

        rows = pa.Table.from_pylist(
            [_row(action, next(self._sequence)) for action in actions], schema=TABLES[ACTIONS].schema
        )
        before = self._followed.table.version()
        try:
            write_deltalake(table_path(self._tables, ACTIONS), rows, mode="append")
        except Exception as error:
            if not _is_delta_error(error):
                raise
            path = table_path(self._tables, ACTIONS)
            msg = f"can't write {path} ({_first_line(error)}): no quota is changed without it. Check the folder"
            raise TableError(msg) from error
        self._followed.look()
        if self._followed.table.version() != before + 1:
            # Somebody wrote in between.
            self._has_changed = True

    def read(self) -> list[Action]:
        """Return all actions in the order in which they were written.

        Raises:
            TableError: If they can't be read.
        """
        self._followed.look()
        rows = self._followed.rows()
        self._has_changed = False
        rows.sort(key=lambda row: (row["recorded_at"], row["sequence"]))
        return [_action(row) for row in rows]

    def has_changed(self) -> bool:
        """Say whether others wrote since `read`.

        Raises:
            TableError: If the table can't be read.
        """
        self._has_changed = self._followed.look() or self._has_changed
        return self._has_changed


def newest_commit_ms(tables: Iterable[FollowedTable]) -> int:
    """Return when the newest of some tables was last written, in milliseconds since the epoch."""
    newest = 0
    for table in tables:
        table.look()
        newest = max(newest, table.last_commit_ms())
    return newest


def to_time(ms: int) -> datetime:
    """Return an aware time."""
    return _EPOCH + timedelta(milliseconds=ms)


def _to_ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _decision(row: dict[str, Any]) -> ThrottleDecision:
    return ThrottleDecision(
        row["decision_id"],
        row["principal"],
        _to_ms(row["decided_at"]),
        _to_ms(row["throttled_until"]),
        row["quota"],
        row["refused_pids"] or 0,
        dict(row["client_ids"] or ()),
    )


def _row(action: Action, number: int) -> dict[str, Any]:
    lease = action.lease
    row = {
        "recorded_at": to_time(action.recorded_at_ms),
        "sequence": number,
        "state": action.state,
        "principal": action.principal,
        "until": None if action.until_ms is None else to_time(action.until_ms),
        "reason": action.reason,
        "enforcer": action.enforcer,
    }
    if lease:
        row |= {
            "lease_id": lease.lease_id,
            "decision_id": lease.decision_id,
            "entity_user": lease.entity.user,
            "entity_client_id": lease.entity.client_id,
            "entity_ip": lease.entity.ip,
            "quota_key": lease.quota_key,
            "previous_value": lease.previous,
            "new_value": lease.enforced,
        }
    return row


def _action(row: dict[str, Any]) -> Action:
    until_ms = None if row["until"] is None else _to_ms(row["until"])
    lease = None
    if row["lease_id"] is not None:
        lease = Lease(
            row["lease_id"],
            row["principal"],
            QuotaEntity(row["entity_user"], row["entity_client_id"], row["entity_ip"]),
            row["quota_key"],
            row["previous_value"],
            row["new_value"],
            until_ms or 0,
            row["decision_id"],
            row["state"],
        )
    return Action(
        _to_ms(row["recorded_at"]),
        row["state"],
        row["principal"],
        until_ms,
        row["reason"] or "",
        lease,
        row["enforcer"] or "",
    )


def _is_delta_error(error: Exception) -> bool:
    from deltalake.exceptions import DeltaError

    return isinstance(error, DeltaError | OSError | pa.ArrowException)


def _unreadable(tables: str, name: str, error: Exception) -> TableError:
    return TableError(f"can't read table {name} in {tables}: {_first_line(error)}. Check the folder given by --tables")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

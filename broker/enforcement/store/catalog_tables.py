"""The enforcer's tables in a catalog, by SQL: what `broker.enforcement.store.path_tables` is for path tables.

Each poll is a query and keeps a SQL warehouse from stopping: raise `--poll-seconds` accordingly.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Any

from broker.enforcement.model import EnforcementRecord, ThrottleDecision
from broker.enforcement.store.rows import ACTIONS, action_row, is_credible, newest_decisions, records_of
from tables.errors import CatalogError, TableError
from tables.schema.ddl import insert_statement
from tables.schema.specs import TABLES
from tables.store import engines
from tables.store.base import Answer
from tables.store.engines import Engine
from tables.times import to_ms, to_time

_SINCE_IN_FORCE = """
SELECT * FROM throttle_decisions
WHERE decided_at >= (SELECT min(decided_at) FROM throttle_decisions WHERE throttled_until > :now)
"""
_ALL_ACTIONS = "SELECT * FROM enforcement_actions ORDER BY recorded_at, sequence"
_COUNT_ACTIONS = "SELECT count(*) AS rows_now FROM enforcement_actions"


class LazyEngine:
    """Connects when first used, and again after an error; leases end without it.

    Args:
        tables: `catalog.schema`.
    """

    def __init__(self, tables: str) -> None:
        self._tables = tables
        self._stack = ExitStack()
        self._engine: Engine | None = None

    def execute(self, statement: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """As `Engine.execute`."""
        if self._engine is None:
            self._engine = self._stack.enter_context(engines.engine(self._tables))
        try:
            return self._engine.execute(statement, parameters)
        except CatalogError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._engine = None
        self._stack.close()


class CatalogDecisions:
    """Queries `throttle_decisions` for decisions in force.

    Args:
        engine: Whose current schema holds the tables.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.bad_rows = 0

    def newest(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the newest decisions, known ones too, at every call. See `DecisionSource`.

        Raises:
            TableError: If the table can't be read.
        """
        del again
        rows = _ask(self._engine, _SINCE_IN_FORCE, {"now": to_time(now_ms)})
        self.bad_rows = sum(not is_credible(row, now_ms) for row in rows)
        return newest_decisions(rows, now_ms)

    def has_news(self) -> bool:
        """Return False: it takes a query to see."""
        return False


class CatalogActions:
    """Reads and writes `enforcement_actions`."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine; as `CatalogDecisions`."""
        self._engine = engine
        self._sequence = count()
        self._written = 0
        self._rows_read: int | None = None

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Append records, all or none.

        Raises:
            TableError: If they could not be written.
        """
        names = TABLES[ACTIONS].schema.names
        rows = [action_row(record, next(self._sequence)) for record in records]
        try:
            self._engine.execute(insert_statement(ACTIONS, names, rows))
        except CatalogError as error:
            msg = f"can't write table {ACTIONS} ({error}): no quota is changed without it. Check MODIFY on it"
            raise TableError(msg) from error
        self._written += len(records)

    def read(self) -> list[EnforcementRecord]:
        """Return all records in the order written.

        Raises:
            TableError: If they can't be read.
        """
        rows = _ask(self._engine, _ALL_ACTIONS)
        self._rows_read, self._written = len(rows), 0
        return records_of(rows)

    def has_changed(self) -> bool:
        """Whether others have written since `read`.

        Raises:
            TableError: If the table can't be read.
        """
        (row,) = _ask(self._engine, _COUNT_ACTIONS)
        return self._rows_read is None or row["rows_now"] != self._rows_read + self._written


def newest_write_ms(engine: Engine, tables: Sequence[str]) -> int:
    """Return when any of the tables was last written, in milliseconds since the epoch.

    Raises:
        TableError: If a table can't be read.
    """
    histories = [_ask(engine, f"DESCRIBE HISTORY {table} LIMIT 1") for table in tables]
    return max((to_ms(history[0]["timestamp"]) for history in histories if history), default=0)


def _ask(engine: Engine, statement: str, parameters: dict[str, object] | None = None) -> list[dict[str, Any]]:
    try:
        return engine.execute(statement, parameters).records()
    except CatalogError as error:
        raise TableError(str(error)) from error

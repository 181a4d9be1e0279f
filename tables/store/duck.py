"""Runs SQL over tables in a folder or object store with DuckDB."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tables.errors import QueryError, TableNotFoundError, first_line
from tables.schema.ddl import deltalake_literal
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS, mentioned, needed_views, relations, views
from tables.store.base import TableStore
from tables.store.duck_tables import add_table, marked
from tables.store.path_tables import select_rows
from tables.store.values import Answer, RowFilter

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SET_WINDOW = "UPDATE settings SET window_ms = $1"
_UNKNOWN_TABLE = re.compile(r"Table with name (\S+) does not exist")


@contextmanager
def connected(now: datetime, window_ms: int = 0) -> Iterator["DuckDBPyConnection"]:
    """Open a connection with the settings and functions that the views need."""
    import duckdb

    options: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=options) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET parquet_metadata_cache = true")
        # Only these functions of the views have different names in DuckDB and in Spark.
        connection.execute("CREATE MACRO unix_millis(t) AS epoch_ms(t)")
        connection.execute("CREATE MACRO timestamp_millis(ms) AS make_timestamptz(1000 * ms)")
        connection.execute("CREATE MACRO explode(list) AS unnest(list)")
        # With parameters, the DuckDB release for Python 3.10 would load pandas.
        connection.execute(
            f"CREATE TABLE {SETTINGS} AS "
            f"SELECT {deltalake_literal(now)}::TIMESTAMPTZ AS now, {window_ms}::BIGINT AS window_ms"
        )
        yield connection


def query(connection: "DuckDBPyConnection", tables: str, sql: str, parameters: Mapping[str, object]) -> Answer:
    """Run one SELECT over the tables. It can't reach other files, the network or Python objects."""
    import duckdb

    missing: list[TableNotFoundError] = []
    try:
        _require_select(connection, marked(sql, parameters))
        missing = _load(connection, tables, sql)
        _lock(connection)
        return _answer(connection, sql, parameters)
    except duckdb.Error as error:
        if missing:
            raise missing[0] from error
        msg = f"the query can't be answered: {_reason(error)}"
        raise QueryError(msg) from error


class DuckRelations:
    """Tables and views for several queries. Each table is read once. A missing table is empty.

    The connection comes from `connected`. `TableStore.relations` describes the other arguments.
    """

    def __init__(
        self,
        connection: "DuckDBPyConnection",
        store: TableStore,
        rows: Mapping[str, RowFilter],
    ) -> None:
        self._connection, self._tables, self._rows = connection, store.tables, rows
        self._window_ms, self.settings = store.window_ms, store.settings
        _lock(connection)
        self._made: set[str] = set()
        self.missing: dict[str, str] = {}

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a SELECT with `:name` parameter markers."""
        import duckdb

        wanted = needed_views(select)
        try:
            self._connection.execute(_SET_WINDOW, [self._window_ms(select)])
            for name in _mentioned_tables(select, wanted):
                if name not in self._made:
                    self._add(name)
                    self._made.add(name)
            _add_views(self._connection, [name for name in wanted if name not in self._made])
            self._made.update(wanted)
            return _answer(self._connection, select, parameters or {})
        except duckdb.Error as error:
            msg = f"the tables in {self._tables} can't be queried: {first_line(error)}. Check --tables"
            raise QueryError(msg) from error

    def _add(self, name: str) -> None:
        rows = self._rows.get(name, RowFilter())
        try:
            self._connection.register(name, select_rows(self._tables, name, rows))
        except TableNotFoundError as error:
            self.missing[name] = str(error)
            schema = TABLES[name].schema
            self._connection.register(name, schema.empty_table().select(list(rows.columns or schema.names)))


def _load(connection: "DuckDBPyConnection", tables: str, sql: str) -> list[TableNotFoundError]:
    missing = []
    if mentioned(sql, ["show"]) and not mentioned(sql, relations()):
        # SHOW without the name of a table lists all tables.
        sql = " ".join(relations())
    wanted = needed_views(sql)
    for name in _mentioned_tables(sql, wanted):
        try:
            add_table(connection, tables, name)
        except TableNotFoundError as error:
            # The name may be only an alias or part of a string, so DuckDB decides whether the table is needed.
            missing.append(error)
    if not missing:
        _add_views(connection, wanted)
    return missing


def _mentioned_tables(sql: str, wanted: Sequence[str]) -> list[str]:
    return mentioned("\n".join([sql, *(views()[view] for view in wanted)]), TABLES)


def _add_views(connection: "DuckDBPyConnection", names: Sequence[str]) -> None:
    for name in names:
        connection.execute(f'CREATE VIEW "{name}" AS {views()[name]}')


def _answer(connection: "DuckDBPyConnection", sql: str, parameters: Mapping[str, object]) -> Answer:
    result = connection.execute(marked(sql, parameters), dict(parameters))
    return Answer(tuple(column[0] for column in result.description or ()), tuple(result.fetchall()))


def _require_select(connection: "DuckDBPyConnection", sql: str) -> None:
    from duckdb import StatementType

    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] not in (StatementType.SELECT, StatementType.EXPLAIN):
        found = ", ".join(kind.name for kind in kinds) or "none"
        msg = f"expected one SELECT, found {found}. This command only reads; put the query in quotes"
        raise QueryError(msg)


def _reason(error: BaseException) -> str:
    """Return DuckDB's reason and suggestion without the query. For an unknown table, suggest or list known names."""
    reason = " ".join(str(error).split("\n\n")[0].split())
    unknown = _UNKNOWN_TABLE.search(reason)
    if unknown is None:
        return reason
    # DuckDB suggests only tables of this query.
    near = get_close_matches(unknown[1], relations(), n=1)
    return f"{unknown[0]}. " + (f"Did you mean {near[0]!r}?" if near else f"Tables and views: {', '.join(relations())}")


def _lock(connection: "DuckDBPyConnection") -> None:
    """Bar a connection's later statements from files, the network and settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")

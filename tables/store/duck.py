"""Runs SQL over path tables by DuckDB: local Parquet files directly, anything else through Arrow.

Arrow data sets load pandas, which takes longer than most queries.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tables.errors import QueryError, TableError, TableNotFoundError, first_line
from tables.schema.ddl import MARKER, deltalake_literal, with_literals
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS, mentioned, needed_views, relations, views
from tables.store.base import TableStore
from tables.store.facts import column_facts, data_files, paths_since
from tables.store.path_tables import open_table, table_path
from tables.store.values import Answer, RowFilter

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

_TYPES = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "timestamp": "TIMESTAMPTZ",
    "array<long>": "BIGINT[]",
    "map<string, long>": "MAP(VARCHAR, BIGINT)",
}
_PATTERN_SIGNS = frozenset("*?[")
_NO_ROWS = "SELECT {columns} WHERE false"
_ROWS = "SELECT {columns} FROM {files}"
_ALLOWED = "SELECT current_setting('allowed_paths')"
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
        # The only function of the views that DuckDB names differently from Spark.
        connection.execute("CREATE MACRO unix_millis(t) AS epoch_ms(t)")
        # Parameters would load pandas, by the DuckDB that Python 3.10 gets.
        connection.execute(
            f"CREATE TABLE {SETTINGS} AS "
            f"SELECT {deltalake_literal(now)}::TIMESTAMPTZ AS now, {window_ms}::BIGINT AS window_ms"
        )
        yield connection


def query(connection: "DuckDBPyConnection", tables: str, sql: str, parameters: Mapping[str, object]) -> Answer:
    """Run one SELECT; it can't reach files, the network or Python objects."""
    import duckdb

    missing: list[TableNotFoundError] = []
    try:
        _require_select(connection, _marked(sql, parameters))
        missing = _load(connection, tables, sql)
        _lock(connection)
        return _answer(connection, sql, parameters)
    except duckdb.Error as error:
        if missing:
            raise missing[0] from error
        msg = f"the query can't be answered: {_reason(error)}"
        raise QueryError(msg) from error


class DuckRelations:
    """Path tables and views for several queries; each table is read once, and a missing one is empty.

    Args:
        connection: Of `connected`.
        store: Of the tables.
        rows: By table; tables not named are read whole.
    """

    def __init__(self, connection: "DuckDBPyConnection", store: TableStore, rows: Mapping[str, RowFilter]) -> None:
        self._connection, self._tables, self._rows = connection, store.tables, rows
        self._window_ms, self.settings = store.window_ms, store.settings
        if "://" not in self._tables:
            connection.execute(f"SET allowed_directories = {_texts([f'{Path(self._tables).absolute()}/'])}")
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
            add_table(self._connection, self._tables, name, rows)
        except TableNotFoundError as error:
            self.missing[name] = str(error)
            schema = TABLES[name].schema
            self._connection.register(name, schema.empty_table().select(list(rows.columns or schema.names)))


def add_table(connection: "DuckDBPyConnection", tables: str, name: str, rows: RowFilter | None = None) -> None:
    """Give a connection a table's newest version.

    Args:
        connection: Of `connected`.
        tables: Folder of the tables.
        name: Of the table.
        rows: Rows to read now, once; None for all, which each query reads, also once the connection is locked.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If it can't be read.
    """
    import duckdb
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    table = open_table(tables, name)
    try:
        source = _local_source(connection, table, tables, name, rows)
        if source is not None and rows is not None:
            select = rows.select(f"({source})")
            connection.execute(f"CREATE TABLE {_name(name)} AS {_marked(select, rows.values)}", dict(rows.values))
        elif source is not None:
            connection.execute(f"CREATE VIEW {_name(name)} AS {source}")
        elif rows is not None:
            select = with_literals(rows.select("t"), rows.values, deltalake_literal)
            connection.register(name, pa.table(QueryBuilder().register("t", table).execute(select).read_all()))
        else:
            connection.register(name, table.to_pyarrow_dataset())
    except (DeltaError, OSError, duckdb.Error) as error:
        msg = f"can't read table {name} in {tables}: {error}. Check the folder given by --tables"
        raise TableError(msg) from error


def _local_source(
    connection: "DuckDBPyConnection", table: "DeltaTable", tables: str, name: str, rows: RowFilter | None
) -> str | None:
    """Return the SELECT of a table's local files; None if DuckDB can't read the files directly."""
    files = _local_files(table, tables, name, rows.newer_than if rows else None)
    kinds = {column.name: _TYPES.get(column.kind) for column in column_facts(table)}
    if files is None or None in kinds.values():
        return None
    if not files:
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {_name(column)}" for column, kind in kinds.items())
        return _NO_ROWS.format(columns=columns)
    if rows is None:
        _allow(connection, files)
    relation = f"read_parquet({_texts(files)}, union_by_name = true, hive_partitioning = false)"
    found = {column[0] for column in connection.execute(f"FROM {relation} LIMIT 0").description or ()}
    # Writers store times differently, and a file may lack columns that are null.
    columns = ", ".join(
        f"CAST({_name(column) if column in found else 'NULL'} AS {kind}) AS {_name(column)}"
        for column, kind in kinds.items()
    )
    return _ROWS.format(columns=columns, files=relation)


def _local_files(
    table: "DeltaTable", tables: str, name: str, newer_than: tuple[str, datetime] | None
) -> list[str] | None:
    """Return the table's files, None if the files alone are not the table."""
    folder = table_path(tables, name)
    partitioned = bool(table.metadata().partition_columns)
    has_features = table.protocol().min_reader_version > 1
    if "://" in folder or partitioned or has_features or _PATTERN_SIGNS & set(folder):
        return None
    files = data_files(table)
    paths = paths_since(files, *newer_than) if newer_than else files["path"].to_pylist()
    return [str(Path(folder).absolute() / unquote(path)) for path in paths]


def _load(connection: "DuckDBPyConnection", tables: str, sql: str) -> list[TableNotFoundError]:
    """Add the tables and views that a query mentions; return errors of missing ones."""
    missing = []
    if mentioned(sql, ["show"]) and not mentioned(sql, relations()):
        # SHOW TABLES lists everything.
        sql = " ".join(relations())
    wanted = needed_views(sql)
    for name in _mentioned_tables(sql, wanted):
        try:
            add_table(connection, tables, name)
        except TableNotFoundError as error:
            # The name may be only an alias or a text: DuckDB decides.
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
    result = connection.execute(_marked(sql, parameters), dict(parameters))
    return Answer(tuple(column[0] for column in result.description or ()), tuple(result.fetchall()))


def _marked(sql: str, parameters: Mapping[str, object]) -> str:
    """Return a statement with DuckDB's parameter markers, `$name`."""
    return MARKER.sub(lambda marker: f"${marker[1]}" if marker[1] in parameters else marker[0], sql)


def _require_select(connection: "DuckDBPyConnection", sql: str) -> None:
    from duckdb import StatementType

    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] not in (StatementType.SELECT, StatementType.EXPLAIN):
        found = ", ".join(kind.name for kind in kinds) or "none"
        msg = f"expected one SELECT, found {found}. This command only reads; put the query in quotes"
        raise QueryError(msg)


def _reason(error: BaseException) -> str:
    """Return DuckDB's reason with its suggestion, without the query; for a table that it may not know, all names."""
    reason = " ".join(str(error).split("\n\n")[0].split())
    unknown = _UNKNOWN_TABLE.search(reason)
    if unknown is None:
        return reason
    # DuckDB knows the tables of this query only.
    near = get_close_matches(unknown[1], relations(), n=1)
    return f"{unknown[0]}. " + (f"Did you mean {near[0]!r}?" if near else f"Tables and views: {', '.join(relations())}")


def _lock(connection: "DuckDBPyConnection") -> None:
    """Deny a connection's further statements files, the network and settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _allow(connection: "DuckDBPyConnection", files: list[str]) -> None:
    """Keep these files readable after the connection is locked."""
    (have,) = connection.execute(_ALLOWED).fetchone() or ([],)
    connection.execute(f"SET allowed_paths = {_texts([*have, *files])}")


def _texts(values: list[str]) -> str:
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

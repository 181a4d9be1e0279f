"""Tables and views for the web console, restricted to the rows a page needs, so that 30 days of rows stay fast.

The views rank rows with window functions, and no engine pushes a predicate through those: a condition on a view would
read the whole table. So the condition is applied below the views, where Delta's statistics skip whole files.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from quota.config import QuotaConfig
from tables.errors import QueryError, TableError, TableNotFoundError, first_line
from tables.query.literals import standard_literal
from tables.query.sql_query import lock, prepare
from tables.schema.specs import TABLES
from tables.schema.views import mentioned, needed_views, views, with_views
from tables.store import engines
from tables.store.base import Answer
from tables.store.path_tables import is_catalog, open_table, table_path
from tables.store.scan import read_local

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

_MARKER = re.compile(r":(\w+)")


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


class Relations(Protocol):
    """Tables and views to query."""

    missing: dict[str, str]
    """Missing tables, and what to do about each."""

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a SELECT with `:name` parameter markers."""


@contextmanager
def opened(tables: str, now: datetime, config: QuotaConfig, rows: Mapping[str, RowFilter]) -> Iterator[Relations]:
    """Open tables for several queries; a missing path table is empty.

    Args:
        tables: Folder of the path tables, or `catalog.schema`.
        now: Present time of the views; a catalog uses its own clock.
        config: Window for the views' tokens.
        rows: By table; tables not named are read whole.

    Raises:
        TableError: If a table can't be read.
        CatalogError: If the catalog can't be reached.
    """
    if is_catalog(tables):
        with engines.engine(tables) as engine:
            yield _CatalogRelations(engine, tables, config, rows)
    else:
        with _connection(now, config) as connection:
            yield _PathRelations(connection, tables, rows)


@dataclass
class _CatalogRelations:
    engine: engines.Engine
    tables: str
    config: QuotaConfig
    rows: Mapping[str, RowFilter]
    missing: dict[str, str] = field(default_factory=dict)

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        text = with_views(select, self.config)
        values = dict(parameters or {})
        parts = []
        for name in mentioned(text, self.rows):
            # A CTE of the same name shadows the table; it reads the table by its full name.
            parts.append(f"{name} AS ({self.rows[name].select(table_path(self.tables, name))})")
            values |= self.rows[name].values
        if parts:
            first, rest = ", ".join(parts), text.removeprefix("WITH ")
            text = f"WITH {first}, {rest}" if rest != text else f"WITH {first}\n{text}"
        return self.engine.execute(text, values)


@dataclass
class _PathRelations:
    connection: "DuckDBPyConnection"
    tables: str
    rows: Mapping[str, RowFilter]
    missing: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        import duckdb

        wanted = needed_views(select)
        for name in mentioned("\n".join([select, *(views()[view] for view in wanted)]), TABLES):
            if name not in self.made:
                self.connection.register(name, self._read(name))
                self.made.add(name)
        for name in wanted:
            if name not in self.made:
                self.connection.execute(f'CREATE VIEW "{name}" AS {views()[name]}')
                self.made.add(name)
        try:
            result = self.connection.execute(_MARKER.sub(r"$\1", select), dict(parameters or {}))
        except duckdb.Error as error:
            reason = first_line(error)
            msg = (
                f"the tables in {self.tables} can't be queried: {reason}. Let `pid-quota stream` bring them up to date"
            )
            raise QueryError(msg) from error
        return Answer(tuple(column[0] for column in result.description or ()), tuple(result.fetchall()))

    def _read(self, name: str) -> "pa.Table":
        rows = self.rows.get(name, RowFilter())
        try:
            return read_path(self.tables, name, rows)
        except TableNotFoundError as error:
            self.missing[name] = str(error)
            schema = TABLES[name].schema
            return schema.empty_table().select(list(rows.columns or schema.names))


def read_path(tables: str, name: str, rows: RowFilter) -> "pa.Table":
    """Read rows of a path table; Delta's statistics skip files.

    Raises:
        TableNotFoundError: If the table does not exist.
        TableError: If it can't be read.
    """
    import duckdb
    import pyarrow as pa
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    table = open_table(tables, name)
    names = list(rows.columns or table_columns(table))
    try:
        found = read_local(
            table, tables, name, _MARKER.sub(r"$\1", rows.select("{rows}")), rows.values, rows.newer_than
        )
    except duckdb.Error as error:
        msg = f"can't read table {name} in {tables}: {error}. Check the folder given by --tables"
        raise TableError(msg) from error
    if found is not None:
        return _as_declared(found, names, TABLES[name].schema)
    select = _MARKER.sub(lambda marker: standard_literal(rows.values[marker[1]]), rows.select(name))
    try:
        return pa.table(QueryBuilder().register(name, table).execute(select).read_all())
    except (DeltaError, OSError) as error:
        msg = f"can't read table {name} in {tables}: {error}. Check the folder given by --tables"
        raise TableError(msg) from error


def table_columns(table: "DeltaTable") -> list[str]:
    """Return the names of a table's columns."""
    return [column.name for column in table.schema().fields]


def _as_declared(found: "pa.Table", names: list[str], schema: "pa.Schema") -> "pa.Table":
    """Cast columns to their declared types; a column that no file has is null."""
    import pyarrow as pa

    columns = {}
    for name in names:
        kind = schema.field(name).type if name in schema.names else found.schema.field(name).type
        columns[name] = found[name].cast(kind) if name in found.column_names else pa.nulls(found.num_rows, kind)
    return pa.table(columns)


@contextmanager
def _connection(now: datetime, config: QuotaConfig) -> Iterator["DuckDBPyConnection"]:
    import duckdb

    options: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=options) as connection:
        prepare(connection, now, config)
        lock(connection)
        yield connection

"""Adds Delta tables to a DuckDB connection."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from tables.schema.ddl import MARKER
from tables.schema.specs import TABLES
from tables.store.path_tables import data_files, select_rows, table_path, table_to_read, unreadable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TYPES = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BLOB",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.list_(pa.int64()): "BIGINT[]",
    pa.map_(pa.string(), pa.int64()): "MAP(VARCHAR, BIGINT)",
}
_PATTERN_SIGNS = frozenset("*?[")
_ALLOWED = "SELECT current_setting('allowed_paths')"


def add_table(connection: "DuckDBPyConnection", tables: str, name: str) -> None:
    """Add a table's newest version. Each query reads only what it needs, even after the connection is locked.

    DuckDB reads local files itself, because for an Arrow data set it would import pandas, which is slow.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If the table can't be read.
    """
    import duckdb
    from deltalake.exceptions import DeltaError

    table, folder = table_to_read(tables, name), table_path(tables, name)
    is_partitioned = bool(table.metadata().partition_columns)
    try:
        if is_partitioned or "://" in folder or _PATTERN_SIGNS & set(folder):
            # deltalake's data set knows no table features, but its engine does.
            has_features = bool(table.protocol().reader_features)
            connection.register(name, select_rows(tables, name) if has_features else table.to_pyarrow_dataset())
            return
        files = [str(Path(folder).absolute() / unquote(path)) for path in data_files(table)["path"].to_pylist()]
        (allowed,) = connection.execute(_ALLOWED).fetchone() or ([],)
        connection.execute(f"SET allowed_paths = {_texts([*allowed, *files])}")
        connection.execute(_view(name, files))
    except (DeltaError, OSError, duckdb.Error) as error:
        raise unreadable(tables, name, error) from error


def _view(name: str, files: Sequence[str]) -> str:
    """Return the statement that makes a view of files, with at least the columns of the table's specification."""
    columns = ", ".join(f"NULL::{_TYPES[column.type]} AS {column.name}" for column in TABLES[name].schema)
    rows = f"SELECT {columns} WHERE false"
    if files:
        # Writers store times in different types, and a file may lack columns, which are null then.
        options = "union_by_name = true, hive_partitioning = false"
        rows += f" UNION ALL BY NAME FROM read_parquet({_texts(files)}, {options})"
    return f"CREATE VIEW {name} AS {rows}"


def marked(sql: str, parameters: Mapping[str, object]) -> str:
    """Return a statement with DuckDB's parameter markers, `$name`."""
    return MARKER.sub(lambda marker: f"${marker[1]}" if marker[1] in parameters else marker[0], sql)


def _texts(values: Sequence[str]) -> str:
    """Return texts as an SQL list."""
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"

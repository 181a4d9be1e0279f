"""Adds Delta tables to a DuckDB connection.

DuckDB reads local Parquet files directly, because for Arrow data sets DuckDB imports pandas, which is slow.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from tables.errors import TableError, first_line
from tables.schema.ddl import MARKER, deltalake_literal, with_literals
from tables.store.facts import column_facts, data_files, paths_since
from tables.store.kept_files import SMALL_BYTES, KeptTables
from tables.store.path_tables import open_table, table_path
from tables.store.values import RowFilter

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
_FILE = ("path", "size_bytes")
_ALLOWED = "SELECT current_setting('allowed_paths')"


def add_table(
    connection: "DuckDBPyConnection",
    tables: str,
    name: str,
    rows: RowFilter | None = None,
    kept: KeptTables | None = None,
) -> None:
    """Add a table's newest version to a connection.

    If `rows` is given, the selected rows are read now, and `kept` caches rows of small files. If `rows` is None, each
    query reads the table, even after the connection is locked.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If the table can't be read.
    """
    import duckdb
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    table = open_table(tables, name)
    try:
        source = _local_source(connection, table, (tables, name), rows, kept)
        if source is not None and rows is not None:
            select = rows.select(f"({source})")
            connection.execute(f"CREATE TABLE {_name(name)} AS {marked(select, rows.values)}", dict(rows.values))
        elif source is not None:
            connection.execute(f"CREATE VIEW {_name(name)} AS {source}")
        elif rows is not None:
            select = with_literals(rows.select("t"), rows.values, deltalake_literal)
            connection.register(name, pa.table(QueryBuilder().register("t", table).execute(select).read_all()))
        else:
            connection.register(name, table.to_pyarrow_dataset())
    except (DeltaError, OSError, duckdb.Error) as error:
        msg = f"can't read table {name} in {tables}: {first_line(error)}. Check the folder given by --tables"
        raise TableError(msg) from error


def _local_source(
    connection: "DuckDBPyConnection",
    table: "DeltaTable",
    place: tuple[str, str],
    rows: RowFilter | None,
    kept: KeptTables | None,
) -> str | None:
    """Return the SELECT of a table's local files; None if DuckDB can't read the files directly."""
    kinds = {column.name: _TYPES.get(column.kind) for column in column_facts(table)}
    if not _is_its_files(table, table_path(*place)) or None in kinds.values():
        return None
    files = data_files(table)
    wanted = paths_since(files, *rows.newer_than) if rows and rows.newer_than else files["path"].to_pylist()
    folder = Path(table_path(*place)).absolute()
    sizes = {
        str(folder / unquote(path)): size for path, size in zip(*(files[n].to_pylist() for n in _FILE), strict=True)
    }
    paths = [str(folder / unquote(path)) for path in wanted]
    if rows is None:
        _allow(connection, paths)
    if rows is None or kept is None:
        return select_files(connection, paths, kinds)
    small = [path for path in paths if sizes[path] <= SMALL_BYTES]
    large = [path for path in paths if sizes[path] > SMALL_BYTES]
    name = place[1]
    found = kept[name, ",".join(kinds)].rows(
        small, sizes.keys(), lambda new: connection.sql(select_files(connection, new, kinds)).to_arrow_table()
    )
    connection.register(f"kept {name}", found)
    selects = [_ROWS.format(columns="*", files=_name(f"kept {name}"))]
    return " UNION ALL ".join([*selects, *([select_files(connection, large, kinds)] if large else [])])


def select_files(connection: "DuckDBPyConnection", files: Sequence[str], kinds: Mapping[str, str | None]) -> str:
    """Return a SELECT of files, with the table's columns and types."""
    if not files:
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {_name(column)}" for column, kind in kinds.items())
        return _NO_ROWS.format(columns=columns)
    relation = f"read_parquet({texts(files)}, union_by_name = true, hive_partitioning = false)"
    found = {column[0] for column in connection.execute(f"FROM {relation} LIMIT 0").description or ()}
    # Writers store times in different types, and a file may lack columns, which are null then.
    columns = ", ".join(
        f"CAST({_name(column) if column in found else 'NULL'} AS {kind}) AS {_name(column)}"
        for column, kind in kinds.items()
    )
    return _ROWS.format(columns=columns, files=relation)


def _is_its_files(table: "DeltaTable", folder: str) -> bool:
    """Return whether DuckDB can read a table from its local files alone."""
    partitioned = bool(table.metadata().partition_columns)
    has_features = table.protocol().min_reader_version > 1
    return not ("://" in folder or partitioned or has_features or _PATTERN_SIGNS & set(folder))


def marked(sql: str, parameters: Mapping[str, object]) -> str:
    """Return a statement with DuckDB's parameter markers, `$name`."""
    return MARKER.sub(lambda marker: f"${marker[1]}" if marker[1] in parameters else marker[0], sql)


def _allow(connection: "DuckDBPyConnection", files: list[str]) -> None:
    """Keep `files` readable after the connection is locked."""
    (have,) = connection.execute(_ALLOWED).fetchone() or ([],)
    connection.execute(f"SET allowed_paths = {texts([*have, *files])}")


def texts(values: Sequence[str]) -> str:
    """Return texts as an SQL list."""
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

"""Registers path tables in DuckDB: local Parquet files directly, anything else through Arrow.

Arrow data sets load pandas, which takes longer than most queries.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tables.errors import TableError
from tables.schema.specs import TABLES
from tables.store.facts import column_facts, data_files, missing_columns, paths_since, type_words
from tables.store.path_tables import open_table, table_path

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


def add_table(connection: "DuckDBPyConnection", tables: str, name: str) -> None:
    """Register a table's newest version with a connection; it stays readable once the connection is locked.

    Columns that an earlier version lacks are NULL.

    Args:
        connection: With `SET TimeZone = 'UTC'`.
        tables: Folder of the tables.
        name: Of the table.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If it can't be read.
        duckdb.Error: If DuckDB can't read one of its files.
    """
    table = open_table(tables, name)
    files = _local_files(table, tables, name)
    kinds = {column.name: _TYPES.get(column.kind) for column in column_facts(table)}
    kinds |= {column.name: _TYPES.get(type_words(column.type)) for column in missing_columns(TABLES[name], table)}
    if files is None or None in kinds.values():
        _add_by_arrow(connection, table, tables, name)
        return
    if not files:
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {_name(column)}" for column, kind in kinds.items())
        connection.execute(f"CREATE VIEW {_name(name)} AS {_NO_ROWS.format(columns=columns)}")
        return
    _allow(connection, files)
    relation = f"read_parquet({_texts(files)}, union_by_name = true, hive_partitioning = false)"
    found = {column[0] for column in connection.execute(f"FROM {relation} LIMIT 0").description or ()}
    # Writers store times differently, and older files lack newer columns.
    columns = ", ".join(
        f"CAST({_name(column) if column in found else 'NULL'} AS {kind}) AS {_name(column)}"
        for column, kind in kinds.items()
    )
    connection.execute(f"CREATE VIEW {_name(name)} AS {_ROWS.format(columns=columns, files=relation)}")


def read_local(
    table: "DeltaTable",
    tables: str,
    name: str,
    select: str,
    values: Mapping[str, object],
    newer_than: tuple[str, datetime] | None = None,
) -> pa.Table | None:
    """Run a SELECT over a table of local files; None if DuckDB can't read the files directly.

    With hundreds of small files it takes a third of the time of `deltalake`'s engine.

    Args:
        table: At its newest version.
        tables: Folder of the tables.
        name: Of the table.
        select: With `{rows}` for the table and `$name` parameter markers.
        values: Parameters by name.
        newer_than: A column and the time it must exceed, to skip files by Delta's statistics.

    Raises:
        duckdb.Error: If DuckDB can't read one of the files.
    """
    import duckdb

    files = _local_files(table, tables, name, newer_than)
    if not files:
        return None
    options: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=options) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET parquet_metadata_cache = true")
        relation = f"read_parquet({_texts(files)}, union_by_name = true, hive_partitioning = false)"
        return connection.sql(select.replace("{rows}", relation), params=dict(values)).to_arrow_table()


def _local_files(
    table: "DeltaTable", tables: str, name: str, newer_than: tuple[str, datetime] | None = None
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


def _add_by_arrow(connection: "DuckDBPyConnection", table: "DeltaTable", tables: str, name: str) -> None:
    from deltalake.exceptions import DeltaError

    try:
        rows = table.to_pyarrow_dataset()
        fields = [TABLES[name].schema.field(column.name) for column in missing_columns(TABLES[name], table)]
        connection.register(name, rows.replace_schema(pa.schema([*rows.schema, *fields])))
    except (DeltaError, OSError) as error:
        msg = f"can't read table {name} in {tables}: {error}. Check the folder given by --tables"
        raise TableError(msg) from error


def _allow(connection: "DuckDBPyConnection", files: list[str]) -> None:
    """Keep these files readable after the connection is locked."""
    (have,) = connection.execute(_ALLOWED).fetchone() or ([],)
    connection.execute(f"SET allowed_paths = {_texts([*have, *files])}")


def _texts(values: list[str]) -> str:
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

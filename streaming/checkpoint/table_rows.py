"""Reads rows of a table on the driver, by `deltalake` or by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from streaming.databricks import is_local
from tables.schema.specs import TABLES
from tables.store.path_tables import is_catalog, open_table, table_path
from tables.times import to_ms

if TYPE_CHECKING:
    from datetime import datetime

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession


def rows_since(spark: SparkSession, tables: str, table: str, column: str, time: datetime) -> list[dict[str, Any]]:
    """Return the rows whose `column` is `time` or later.

    Raises:
        TableError: If a path table can't be read.
    """
    if is_local(tables):
        found = native_dataset(open_table(tables, table), tables, table).to_table(filter=ds.field(column) >= time)
    else:
        from pyspark.sql.functions import expr

        place = table_path(tables, table)
        rows = spark.read.table(place) if is_catalog(tables) else spark.read.format("delta").load(place)
        found = rows.where(expr(f"unix_millis({column}) >= {to_ms(time)}")).toArrow()
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


def native_dataset(table: DeltaTable, tables: str, name: str) -> ds.Dataset:
    """Return a table in a local folder as a data set that reads its files without Python.

    That of `deltalake` reads in threads that run Python: one that outlives the command crashes the process.
    """
    schema = TABLES[name].schema
    # A commit names its files relative to the table's folder, and percent-encoded (Delta protocol, "Add File").
    paths = [unquote(path) for path in table.get_add_actions(flatten=True).column("path").to_pylist()]
    if not paths:
        return ds.dataset(schema.empty_table())
    folder = SubTreeFileSystem(table_path(tables, name), LocalFileSystem())
    return ds.dataset(paths, schema=schema, format="parquet", filesystem=folder)

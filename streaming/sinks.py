"""From the operator's output to Delta tables, exactly once: a numbered commit per micro-batch."""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from streaming.tables import TABLES, is_catalog, table_path

WRITE_ORDER = ("throttle_decisions", "producer_id_metrics", "quarantined_events")
"""Decisions first: somebody acts on them."""


class TableSink(Protocol):
    """Where rows of a table go."""

    def append(self, rows: DataFrame, table: str, batch_id: int) -> None:
        """Append the rows of a batch; a batch that was appended before changes nothing."""


@dataclass(frozen=True)
class DeltaSink:
    """Appends by delta-spark.

    Attributes:
        tables: Folder of path tables, or `catalog.schema`.
        stream_id: Names the checkpoint, so that batch numbers of another checkpoint are not taken for these.
    """

    tables: str
    stream_id: str

    def append(self, rows: DataFrame, table: str, batch_id: int) -> None:
        """Append the rows of a batch, idempotent by Delta's `txnAppId` and `txnVersion`."""
        writer = (
            rows.coalesce(1)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", f"pid-quota/{self.stream_id}/{table}")
            .option("txnVersion", batch_id)
        )
        if is_catalog(self.tables):
            writer.saveAsTable(f"{self.tables}.{table}")
        else:
            writer.save(table_path(self.tables, table))


@dataclass(frozen=True)
class Commit:
    """The function for `foreachBatch`.

    Attributes:
        sink: Where the rows go.
    """

    sink: TableSink

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        """Write what the operator said in a batch."""
        # Step 1. Keep the output: each write would otherwise run the operator again.
        output = output.persist()
        try:
            # Step 2. Run every partition once. A table that already has this batch is skipped without reading the
            # output, and the operator's state must be committed all the same.
            counts = {row["kind"]: row["count"] for row in output.groupBy("kind").count().collect()}
            # Step 3. Append to each table that has something to say; a repeated batch is recognised by its number.
            for table in WRITE_ORDER:
                if counts.get(table):
                    self.sink.append(table_rows(output, table, batch_id), table, batch_id)
        finally:
            # Step 4. Let go. Spark then commits the offsets: until then a crash repeats steps 1 to 3.
            output.unpersist()


def table_rows(output: DataFrame, table: str, batch_id: int) -> DataFrame:
    """Return the rows of one table out of the operator's output, typed by the table's schema."""
    schema = TABLES[table].schema
    body_schema = ", ".join(f"`{field.name}` {_json_type(field.type)}" for field in schema if field.name != "batch_id")
    parsed = output.where(fn.col("kind") == table).select(fn.from_json("body", body_schema).alias("row"))
    return parsed.select(*[_column(field, batch_id) for field in schema])


def _json_type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "BIGINT"
    if pa.types.is_binary(kind):
        return "STRING"
    names = {
        pa.string(): "STRING",
        pa.int64(): "BIGINT",
        pa.int32(): "INT",
        pa.float64(): "DOUBLE",
        pa.bool_(): "BOOLEAN",
    }
    if pa.types.is_list(kind):
        return f"ARRAY<{_json_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_json_type(kind.key_type)}, {_json_type(kind.item_type)}>"
    return names[kind]


def _column(field: pa.Field, batch_id: int) -> Column:
    if field.name == "batch_id":
        return fn.lit(batch_id).cast("BIGINT").alias("batch_id")
    column = fn.col(f"row.`{field.name}`")
    if pa.types.is_timestamp(field.type):
        column = fn.timestamp_millis(column)
    elif pa.types.is_binary(field.type):
        column = fn.unbase64(column)
    return column.alias(field.name)

"""From the operator's output to Delta tables, exactly once: a numbered commit per micro-batch."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from streaming.checkpoint import batch_offsets
from streaming.marks import BatchMark
from streaming.tables import TABLES, is_catalog, table_path

WRITE_ORDER = ("throttle_decisions", "producer_id_metrics", "quarantined_events")
"""Decisions first: somebody acts on them."""

_ATTEMPTS = 5
"""Appends conflict with nobody's rows, only with changes of a table's settings, which are rare and short."""
_CONFLICT = re.compile(r"io\.delta\.exceptions\.\w*Exception|DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)\w*")

_log = logging.getLogger(__name__)


class TableSink(Protocol):
    """Where rows of a table go."""

    def append(self, rows: DataFrame, table: str, batch_id: int, mark: str = "") -> None:
        """Append the rows of a batch; a batch that was appended before changes nothing.

        Args:
            rows: Its rows, in the table's columns.
            table: Name of the table.
            batch_id: Its number.
            mark: What the commit is to say of the batch.
        """


def application(stream_id: str, table: str) -> str:
    """Return under which name a stream's batches are noted in a table's log."""
    return f"pid-quota/{stream_id}/{table}"


@dataclass(frozen=True)
class DeltaSink:
    """Appends by delta-spark.

    Attributes:
        tables: Folder of path tables, or `catalog.schema`.
        stream_id: Names the checkpoint, so that batch numbers of another checkpoint are not taken for these.
    """

    tables: str
    stream_id: str

    def append(self, rows: DataFrame, table: str, batch_id: int, mark: str = "") -> None:
        """Append the rows of a batch, idempotent by Delta's `txnAppId` and `txnVersion`.

        A conflict with somebody who changes the table's settings at the same moment is tried again.
        """
        writer = (
            rows.coalesce(1)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", application(self.stream_id, table))
            .option("txnVersion", batch_id)
        )
        if mark:
            writer = writer.option("userMetadata", mark)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                place = table_path(self.tables, table)
                writer.saveAsTable(place) if is_catalog(self.tables) else writer.save(place)
            # Of pyspark's class or py4j's, by whether pyspark knows it.
            except Exception as error:
                conflict = _CONFLICT.search(str(error))
                if conflict is None or attempt == _ATTEMPTS:
                    raise
                _log.warning("%s changed while batch %d was appended (%s): once more", table, batch_id, conflict[0])
            else:
                return


class Watch(Protocol):
    """Looks whether all records of a batch could be read."""

    def check(self, batch_id: int) -> None:
        """Look now; raises `DataLossError` if records are found missing of which nobody knew."""

    def rows(self, batch_id: int) -> list[dict[str, Any]]:
        """Return what is known to be missing in a batch, as bodies of `quarantined_events`."""


@dataclass(frozen=True)
class BatchSummary:
    """What a committed batch said, for those who watch the stream.

    Attributes:
        batch_id: Its number.
        counts: Rows by table.
        commit_seconds: Time that writing the tables took.
        rows: Table and body (JSON as of `streaming.operator`) of each row of the tables in `WATCHED`.
    """

    batch_id: int
    counts: Mapping[str, int]
    commit_seconds: float
    rows: Sequence[tuple[str, str]]

    def bodies(self, table: str) -> list[str]:
        """Return the bodies of one table's rows."""
        return [body for name, body in self.rows if name == table]


WATCHED = ("throttle_decisions", "producer_id_metrics")
"""Tables whose rows are shown to an observer: at most a few per principal and batch."""


@dataclass(frozen=True)
class Commit:
    """The function for `foreachBatch`.

    Attributes:
        sink: Where the rows go.
        stream_id: Names the checkpoint.
        checkpoint: Its folder; empty where the rows need no mark.
        watch: Looks for lost records; None if nobody does.
        observer: Is told of each batch; None if nobody wants to know, and then nothing is collected.
    """

    sink: TableSink
    stream_id: str = ""
    checkpoint: str = ""
    watch: Watch | None = None
    observer: Callable[[BatchSummary], None] | None = None

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        """Write what the operator said in a batch."""
        # Step 1. Records that were gone before they were read end the batch here, before anybody is judged without
        # them: the stream starts anew, learning, and this batch with it.
        if self.watch:
            self.watch.check(batch_id)
            output = _with_rows(output, self.watch.rows(batch_id))
        # Step 2. Keep the output: each write would otherwise run the operator again.
        output = output.persist()
        try:
            # Step 3. Run every partition once. A table that already has this batch is skipped without reading the
            # output, and the operator's state must be committed all the same.
            counts = {row["kind"]: row["count"] for row in output.groupBy("kind").count().collect()}
            # Step 4. Records may have gone while the batch was being read.
            if self.watch:
                self.watch.check(batch_id)
            # Step 5. Append to each table that has something to say; a repeated batch is recognised by its number.
            tables = [table for table in WRITE_ORDER if counts.get(table)]
            mark = self._mark(batch_id, tables)
            begin_s = time.monotonic()
            for table in tables:
                self.sink.append(table_rows(output, table, batch_id), table, batch_id, mark)
            if self.observer:
                self.observer(_summary(output, batch_id, counts, time.monotonic() - begin_s))
        finally:
            # Step 6. Let go. Spark then commits the offsets: until then a crash repeats steps 1 to 5.
            output.unpersist()

    def _mark(self, batch_id: int, tables: Sequence[str]) -> str:
        if not (self.checkpoint and tables):
            return ""
        starts, ends = (batch_offsets(self.checkpoint, number) for number in (batch_id - 1, batch_id))
        return BatchMark(self.stream_id, batch_id, tuple(tables), starts, ends).to_text()


def _summary(output: DataFrame, batch_id: int, counts: Mapping[str, int], commit_seconds: float) -> BatchSummary:
    """Collect what is watched out of the kept output, if there is any: the operator does not run again."""
    is_watched = output.kind.isin(*WATCHED)
    rows = output.where(is_watched).collect() if any(counts.get(table) for table in WATCHED) else []
    return BatchSummary(batch_id, counts, commit_seconds, [(row["kind"], row["body"]) for row in rows])


def _with_rows(output: DataFrame, rows: list[dict[str, Any]]) -> DataFrame:
    if not rows:
        return output
    bodies = [("quarantined_events", msgspec.json.encode(row).decode()) for row in rows]
    return output.union(output.sparkSession.createDataFrame(bodies, output.schema))


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

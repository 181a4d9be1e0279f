"""Writes the operator's output to Delta tables, with one numbered commit per table and micro-batch."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from quota.limits import Quotas
from streaming.batch.batch_ends import write_end
from streaming.batch.batch_quotas import BatchQuotas
from streaming.checkpoint.commit_metadata import WRITE_ORDER, CommitMetadata, require_own
from streaming.checkpoint.data_loss import LossDetector
from streaming.checkpoint.spark_files import batch_offsets
from streaming.operator.rows import by_kind, table_rows, unpack_rows
from tables.store.commits import retry_conflicts
from tables.store.open import open_store


class TableSink(Protocol):
    """Appends rows to tables."""

    def append(
        self, spark: SparkSession, rows: pa.Table, table: str, batch_id: int, metadata: CommitMetadata | None = None
    ) -> None:
        """Append the rows of a batch. `rows` has the table's columns. Appending a batch again changes nothing.

        Raises:
            StreamIdTakenError: If the table holds the batch with other `metadata`, because another stream wrote it.
        """


def application(stream_id: str, table: str) -> str:
    """Return the application id of a stream's transactions in a table's log."""
    return f"pid-quota/{stream_id}/{table}"


@dataclass(frozen=True)
class DeltaSink:
    """Appends with delta-spark to `tables`: the path of a folder of tables, or `catalog.schema`."""

    tables: str
    stream_id: str

    def append(
        self, spark: SparkSession, rows: pa.Table, table: str, batch_id: int, metadata: CommitMetadata | None = None
    ) -> None:
        """Append the rows of a batch; see `TableSink`. Delta recognises a repeated batch by its `txnVersion`."""
        writer = (
            spark.createDataFrame(rows)
            .coalesce(1)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", application(self.stream_id, table))
            .option("txnVersion", batch_id)
        )
        if metadata is not None:
            writer = writer.option("userMetadata", metadata.to_text())
        retry_conflicts(lambda: open_store(self.tables).save(writer, table))
        if metadata is not None:
            # Delta does not tell whether the table already had the batch.
            require_own(spark, self.tables, table, metadata)


@dataclass(frozen=True)
class BatchSummary:
    """A committed batch, for observers of the stream.

    Attributes:
        rows: The batch's rows by table, with times in milliseconds.
        commit_seconds: Duration of the writes to the tables.
        quotas: The quotas in force; None if the `Commit` publishes no quotas.
    """

    batch_id: int
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    commit_seconds: float
    quotas: Quotas | None = None


@dataclass(frozen=True)
class Commit:
    """The function that `foreachBatch` calls.

    Attributes:
        stream_id: If empty, commits have no metadata.
        checkpoint: The checkpoint's folder; if empty, no `BatchEnd` is stored.
        observer: Called with each committed batch.
    """

    sink: TableSink
    stream_id: str = ""
    checkpoint: str = ""
    quotas: BatchQuotas | None = None
    watch: LossDetector | None = None
    observer: Callable[[BatchSummary], None] | None = None

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        """Run a batch and append its rows to the tables."""
        # Step 1. If records were lost, abort the batch before any decision.
        if self.watch:
            self.watch.check(batch_id)
        # Step 2. Publish the quotas in force, before any task runs.
        quotas = self.quotas.publish(output.sparkSession, batch_id) if self.quotas else None
        # Step 3. Run the whole batch once. Even if all tables have the batch, the operator's state must be committed.
        bodies = by_kind(unpack_rows(output.toArrow().column("packed").to_pylist()))
        # Step 4. Check again, because records may have been deleted while the batch was read.
        if self.watch:
            self.watch.check(batch_id)
            bodies.setdefault("quarantined_events", []).extend(self.watch.rows(batch_id))
        # Step 5. Append to each table that gets rows. Tables recognise a repeated batch by its number.
        tables = [table for table in WRITE_ORDER if bodies.get(table)]
        metadata = self._metadata(batch_id, tables)
        begin_s = time.monotonic()
        for table in tables:
            rows = table_rows(bodies[table], table, batch_id)
            self.sink.append(output.sparkSession, rows, table, batch_id, metadata)
        if self.observer:
            written = {table: bodies[table] for table in tables}
            self.observer(BatchSummary(batch_id, written, time.monotonic() - begin_s, quotas))
        # Step 6. Store the batch's end, for the next batch. Spark commits the batch after this method returns.
        # If the process crashes before Spark's commit, the batch is repeated.
        if self.checkpoint:
            write_end(self.checkpoint, batch_id, bodies)

    def _metadata(self, batch_id: int, tables: Sequence[str]) -> CommitMetadata | None:
        if not (self.stream_id and tables):
            return None
        starts, ends = (batch_offsets(self.checkpoint, number) for number in (batch_id - 1, batch_id))
        return CommitMetadata(self.stream_id, batch_id, tuple(tables), starts, ends)

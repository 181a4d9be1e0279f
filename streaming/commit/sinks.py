"""Appends rows to Delta tables, with one numbered commit per table and micro-batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from quota.limits import Quotas
from streaming.checkpoint.commit_metadata import CommitMetadata, require_own
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
        quotas: The quotas in force.
    """

    batch_id: int
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    commit_seconds: float
    quotas: Quotas | None = None

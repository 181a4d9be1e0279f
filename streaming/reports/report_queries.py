"""Small queries beside the stream. Each query copies reports of the taps from a topic to a table.

The queries affect no decision. A query with a new checkpoint resumes where the table's rows end.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.checkpoint.commit_metadata import CommitMetadata, newest_metadata, resume_offsets
from streaming.checkpoint.identity import load_or_create
from streaming.checkpoint.spark_files import batch_offsets, newest_batch
from streaming.commit.sinks import TableSink
from streaming.failures import with_short_errors
from streaming.pipeline import KAFKA_TIMEOUTS, StreamOptions, open_sink
from streaming.reports.kip_reports import block_rows, init_rows
from streaming.reports.tap_reports import UnseenBrokers, status_rows
from streaming.triggers import AVAILABLE_NOW
from tables.schema.ddl import row_schema


@dataclass(frozen=True)
class Report:
    """A topic to which the taps write, and its table.

    Attributes:
        folder: Folder of the query's checkpoint, below the stream's checkpoint.
        rows: Turns records into rows without `batch_id`.
        log: Logs what administrators should know about the rows of a batch.
    """

    topic: str
    table: str
    folder: str
    trigger_ms: int
    rows: Callable[[DataFrame], pa.Table]
    log: Callable[[pa.Table], None] = lambda _: None


REPORTS: Mapping[str, Report] = MappingProxyType(
    {
        report.topic: report
        for report in (
            # Spark starts batches at multiples of the interval. With these intervals, two queries rarely start a batch
            # at the same time.
            Report("tap-status", "tap_status", "taps", 29_300, status_rows, UnseenBrokers()),
            Report("producer-id-blocks", "pid_blocks", "blocks", 30_700, block_rows),
            Report("producer-inits", "producer_inits", "inits", 31_900, init_rows),
        )
    }
)
"""The reports by topic."""


def start_reports(spark: SparkSession, options: StreamOptions, topics: Collection[str]) -> list[StreamingQuery]:
    """Start the query of each report whose topic exists, with the stream's options.

    Raises:
        CheckpointError: If a checkpoint can't be used.
    """
    stream_id = load_or_create(options.of_checkpoint).stream_id
    return [_start(spark, options, REPORTS[topic], stream_id) for topic in REPORTS if topic in topics]


def _start(spark: SparkSession, options: StreamOptions, report: Report, stream_id: str) -> StreamingQuery:
    checkpoint = f"{options.checkpoint}/{report.folder}"
    source = spark.readStream.format("kafka").options(**KAFKA_TIMEOUTS | options.kafka_options)
    records = (
        source.option("subscribe", report.topic)
        .option("startingOffsets", _starting_offsets(spark, options.tables, report.table, checkpoint))
        # No decision depends on these reports, so skip deleted records.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", replace(options, events_per_record=1).most_records)
        .load()
        # There are few records. One task leaves the other cores to the stream.
        .coalesce(1)
    )
    open_for = partial(open_sink, options.tables, name=options.sink)
    commit = with_short_errors(CommitReport(report, open_for, stream_id, checkpoint))
    writer = records.writeStream.queryName(f"pid-quota-{report.folder}").foreachBatch(commit)
    writer = writer.option("checkpointLocation", checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{report.trigger_ms} milliseconds").start()


def _starting_offsets(spark: SparkSession, tables: str, table: str, checkpoint: str) -> str:
    """Check the checkpoint, and return the offsets at which a new checkpoint would start."""
    otherwise = f"delete the folder {checkpoint}, and start again: it resumes where the rows of {table} end"
    newest_batch(checkpoint, otherwise)
    newest = newest_metadata(spark, tables, table)
    return resume_offsets([newest] if newest else [])


@dataclass(frozen=True)
class CommitReport:
    """The function that `foreachBatch` calls.

    Attributes:
        open_for: Opens the writer of the tables for a stream id.
        stream_id: Id of the stream. Each query appends the id of its checkpoint.
    """

    report: Report
    open_for: Callable[[str], TableSink]
    stream_id: str
    checkpoint: str

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append the rows of a batch. Appending a batch again changes nothing.

        Raises:
            StreamIdTakenError: If another stream has written the batch.
        """
        rows, table = self.report.rows(records), self.report.table
        if rows.num_rows:
            self.report.log(rows)
            # If Spark added the batch number, Spark would compile new code for each batch.
            rows = rows.append_column("batch_id", pa.repeat(pa.scalar(batch_id), rows.num_rows)).cast(row_schema(table))
            metadata = self._metadata(batch_id)
            self.open_for(metadata.stream_id).append(records.sparkSession, rows, table, batch_id, metadata)

    def _metadata(self, batch_id: int) -> CommitMetadata:
        # Batch numbers restart with a new checkpoint. Spark gives each checkpoint an id.
        query_id = json.loads((Path(self.checkpoint) / "metadata").read_text())["id"]
        starts, ends = (batch_offsets(self.checkpoint, number) for number in (batch_id - 1, batch_id))
        return CommitMetadata(f"{self.stream_id}/{query_id}", batch_id, (self.report.table,), starts, ends)

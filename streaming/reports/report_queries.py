"""Small queries beside the stream: what the taps report besides events, each from its topic to its table.

Each has its own checkpoint below the stream's, and affects no decision.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.checkpoint.identity import load_or_create
from streaming.commit.sinks import TableSink
from streaming.failures import with_short_errors
from streaming.pipeline import KAFKA_TIMEOUTS, StreamOptions, open_sink
from streaming.reports.kip_reports import block_rows, init_rows
from streaming.reports.tap_reports import UnseenBrokers, status_rows
from streaming.triggers import AVAILABLE_NOW
from tables.delta import row_schema


@dataclass(frozen=True)
class Report:
    """One topic of the taps and its table.

    Attributes:
        topic: Where taps write.
        table: Where the rows go.
        folder: Of its checkpoint, below the stream's.
        trigger_ms: Interval of its micro-batches.
        rows: Turns records into rows, but for `batch_id`.
        tell: Called with the rows of a batch, to log what the operator should know.
    """

    topic: str
    table: str
    folder: str
    trigger_ms: int
    rows: Callable[[DataFrame], pa.Table]
    tell: Callable[[pa.Table], None] = lambda _: None


REPORTS: Mapping[str, Report] = MappingProxyType(
    {
        report.topic: report
        for report in (
            # Spark starts batches at multiples of the interval. One that meets another's takes twice as long, so theirs
            # meet neither each other nor each time one of decisions.
            Report("tap-status", "tap_status", "taps", 29_300, status_rows, UnseenBrokers()),
            Report("producer-id-blocks", "pid_blocks", "blocks", 30_700, block_rows),
            Report("producer-inits", "producer_inits", "inits", 31_900, init_rows),
        )
    }
)
"""All reports, by topic."""


def start_reports(spark: SparkSession, options: StreamOptions, topics: Collection[str]) -> list[StreamingQuery]:
    """Start the queries of the existing topics, beside the stream with the same options.

    Raises:
        CheckpointError: As of `streaming.pipeline.start`.
    """
    identity = load_or_create(options.of_checkpoint)
    sink = open_sink(options.tables, identity.stream_id, options.sink)
    return [_start(spark, options, REPORTS[topic], sink) for topic in REPORTS if topic in topics]


def _start(spark: SparkSession, options: StreamOptions, report: Report, sink: TableSink) -> StreamingQuery:
    source = spark.readStream.format("kafka").options(**KAFKA_TIMEOUTS | options.kafka_options)
    records = (
        source.option("subscribe", report.topic)
        .option("startingOffsets", "earliest")
        # No decision depends on these reports, so records that retention deleted are skipped.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", replace(options, events_per_record=1).most_records)
        .load()
        # A few records: one task leaves the other cores to the stream.
        .coalesce(1)
    )
    commit = with_short_errors(CommitReport(report, sink))
    writer = records.writeStream.queryName(f"pid-quota-{report.folder}").foreachBatch(commit)
    writer = writer.option("checkpointLocation", f"{options.checkpoint}/{report.folder}")
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{report.trigger_ms} milliseconds").start()


@dataclass(frozen=True)
class CommitReport:
    """The function for `foreachBatch`.

    Attributes:
        report: Its topic and table.
        sink: Where the rows go.
    """

    report: Report
    sink: TableSink

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append the rows of a batch, if there are any; a batch that was appended before changes nothing."""
        rows = self.report.rows(records)
        if rows.num_rows:
            self.report.tell(rows)
            # Not by Spark: it would compile the batch's number into its code, anew each time.
            rows = rows.append_column("batch_id", pa.repeat(pa.scalar(batch_id), rows.num_rows))
            self.sink.append(
                records.sparkSession, rows.cast(row_schema(self.report.table)), self.report.table, batch_id
            )

"""The small query beside the stream: copies the plugins' reports from `pid-quota-reports` to three tables.

It also tells the stream the cluster's next producer id. No decision waits for it.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.checkpoint.commit_metadata import CommitMetadata, newest_metadata, resume_offsets
from streaming.checkpoint.identity import load_or_create
from streaming.checkpoint.next_producer_id import save_next_producer_id
from streaming.checkpoint.spark_files import batch_offsets, newest_batch
from streaming.failures import with_short_errors
from streaming.operator.rows import table_rows
from streaming.pipeline import KAFKA_TIMEOUTS, StreamOptions, open_sink
from streaming.reports.broker_watch import BrokerWatch
from streaming.reports.report_rows import KnownBlocks, Parsed, ReportParser, block_row, init_row
from streaming.triggers import AVAILABLE_NOW
from tables.schema.specs import SinkName
from wire.plugin_reports import PluginState
from wire.topics import REPORTS

FOLDER = "reports"
"""Folder of the query's checkpoint, below the stream's checkpoint."""
TABLES = ("broker_status", "pid_blocks", "producer_inits")
"""The query's tables, in the order of writing."""
TRIGGER_MS = 29_300
"""Interval of the batches. Spark starts them at multiples of it, so they rarely start together with the stream's."""
MAX_RECORDS = 500_000
"""Maximum number of records of a batch. A broker reports at most 1,000 answers to INIT_PRODUCER_ID per second."""


def start_reports(spark: SparkSession, options: StreamOptions, cluster_id: str) -> StreamingQuery:
    """Start the query with the stream's options. `cluster_id` is the id of the cluster that the stream reads.

    A query with a new checkpoint resumes where the tables' rows end.

    Raises:
        CheckpointError: If a checkpoint can't be used.
    """
    checkpoint = f"{options.checkpoint}/{FOLDER}"
    source = spark.readStream.format("kafka").options(**KAFKA_TIMEOUTS | options.kafka_options)
    records = (
        source.option("subscribe", REPORTS)
        .option("startingOffsets", _starting_offsets(spark, options.tables, checkpoint))
        # No decision depends on these reports, so skip deleted records.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", MAX_RECORDS)
        .load()
        # One task leaves the other cores to the stream, and keeps the order of the records.
        .coalesce(1)
    )
    commit = CommitReports(
        options.tables,
        options.sink,
        load_or_create(options.of_checkpoint).stream_id,
        options.checkpoint,
        ReportParser(cluster_id),
        BrokerWatch(options.config.window_ms),
        KnownBlocks(options.tables),
        options.plugin_observer,
    )
    writer = records.writeStream.queryName(f"pid-quota-{FOLDER}").foreachBatch(with_short_errors(commit))
    writer = writer.option("checkpointLocation", checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{TRIGGER_MS} milliseconds").start()


def _starting_offsets(spark: SparkSession, tables: str, checkpoint: str) -> str:
    """Check the checkpoint, and return the offsets at which a new checkpoint would start."""
    otherwise = f"delete the folder {checkpoint}, and start again: it resumes where the rows of its tables end"
    newest_batch(checkpoint, otherwise)
    commits = [newest_metadata(spark, tables, table) for table in TABLES]
    return resume_offsets([commit for commit in commits if commit])


@dataclass(frozen=True)
class CommitReports:
    """The function that `foreachBatch` calls.

    Attributes:
        stream_id: Id of the stream. The query appends the id of its own checkpoint.
        checkpoint: The stream's checkpoint.
        observer: Called with the states that a batch's plugins report.
    """

    tables: str
    sink: SinkName | None
    stream_id: str
    checkpoint: str
    parser: ReportParser
    watch: BrokerWatch
    known: KnownBlocks
    observer: Callable[[Sequence[PluginState]], None] | None = field(default=None, repr=False)

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append the rows of a batch. Appending a batch again changes nothing.

        Raises:
            StreamIdTakenError: If another stream has written the batch.
            WindowTooShortError: If the stream's window is too short for a plugin's repeat interval.
        """
        spark = records.sparkSession
        # Step 1. Parse the records. A flood makes many answers, so their rows are made in parts.
        parsed, inits = Parsed(), list[pa.Table]()
        for part in self._parts(records):
            parsed.states += part.states
            parsed.blocks += part.blocks
            inits.append(table_rows([init_row(each) for each in part.inits], "producer_inits", batch_id))
        blocks = self.known.new(spark, parsed.blocks)
        # Step 2. Append to each table that gets rows. Tables recognise a repeated batch by its number.
        rows = {
            "broker_status": table_rows(self.watch.see(parsed.states), "broker_status", batch_id),
            "pid_blocks": table_rows([block_row(each) for each in blocks], "pid_blocks", batch_id),
            "producer_inits": pa.concat_tables(inits) if inits else pa.table({}),
        }
        self._append(spark, rows, batch_id)
        self.known.add(blocks)
        # Step 3. Tell the stream below which PID it learns if PIDs are forgotten.
        save_next_producer_id(self.checkpoint, self.watch.next_producer_id())
        if self.observer:
            self.observer([each.state for each in parsed.states])
        # Step 4. End the stream if the plugins' settings don't fit.
        self.watch.check_settings(time.time_ns() // 1_000_000)

    def _parts(self, records: DataFrame) -> Iterator[Parsed]:
        values = records.selectExpr("value", "unix_millis(timestamp) AS appended_ms").toArrow()
        for part in values.to_batches():
            yield self.parser.parse(zip(*(column.to_pylist() for column in part.columns), strict=True))

    def _append(self, spark: SparkSession, rows: Mapping[str, pa.Table], batch_id: int) -> None:
        tables = tuple(table for table in TABLES if rows[table].num_rows)
        if not tables:
            return
        metadata = self._metadata(batch_id, tables)
        sink = open_sink(self.tables, metadata.stream_id, self.sink)
        for table in tables:
            sink.append(spark, rows[table], table, batch_id, metadata)

    def _metadata(self, batch_id: int, tables: tuple[str, ...]) -> CommitMetadata:
        # Batch numbers restart with a new checkpoint. Spark gives each checkpoint an id.
        checkpoint = f"{self.checkpoint}/{FOLDER}"
        query_id = json.loads((Path(checkpoint) / "metadata").read_text())["id"]
        starts, ends = (batch_offsets(checkpoint, number) for number in (batch_id - 1, batch_id))
        return CommitMetadata(f"{self.stream_id}/{query_id}", batch_id, tables, starts, ends)

"""The small query beside the stream: copies the plugins' reports and the records of holds to four tables.

It also tells the stream the cluster's next producer id. No decision waits for it.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.checkpoint.commit_metadata import EARLIEST, CommitMetadata, newest_metadata, resume_offsets
from streaming.checkpoint.identity import load_or_create
from streaming.checkpoint.next_producer_id import save_next_producer_id
from streaming.checkpoint.spark_files import as_spark_json, batch_offsets, newest_batch, parse_offsets
from streaming.commit.pending_rows import PendingRows
from streaming.failures import with_short_errors
from streaming.operator.rows import table_rows
from streaming.pipeline import KAFKA_SOURCE, StreamOptions, open_sink
from streaming.reports.broker_watch import BrokerWatch
from streaming.reports.hold_rows import HoldWatch, Row
from streaming.reports.report_rows import KnownBlocks, Parsed, ReportParser, TopicRecord, block_row, init_row
from streaming.triggers import AVAILABLE_NOW
from tables.schema.specs import SinkName
from wire.plugin_reports import PluginState
from wire.topics import HOLDS, REPORTS

_OLDEST = -2
"""Spark's number for the offset of the oldest record."""
FOLDER = "reports"
"""Folder of the query's checkpoint, below the stream's checkpoint."""
TABLES = ("broker_status", "pid_blocks", "producer_inits", "holds")
"""The query's tables, in the order of writing."""
TRIGGER_MS = 29_300
"""Interval of the batches. Spark starts them at multiples of it, so they rarely start together with the stream's."""
MAX_RECORDS = 500_000
"""Maximum number of records of a batch. A broker reports at most 1,000 answers to INIT_PRODUCER_ID per second."""
OFFSET_RETRIES = 15
"""How often the query asks for offsets, 20 s each time, before it fails and ends the stream. Kafka may elect no leader
of one of these topics for minutes, and no decision depends on them."""


def start_reports(
    spark: SparkSession, options: StreamOptions, cluster_id: str, *, has_holds: bool = True
) -> StreamingQuery:
    """Start the query with the stream's options. `cluster_id` is the id of the cluster that the stream reads.

    A query with a new checkpoint resumes where the tables' rows end. `has_holds` says whether the topic of holds exists
    now. If it appears later, or is deleted and made anew, the query reads it, too.

    Raises:
        CheckpointError: If a checkpoint can't be used.
    """
    checkpoint = f"{options.checkpoint}/{FOLDER}"
    starts, first_new_batch = _beginning(spark, options.tables, checkpoint, has_holds=has_holds)
    source = spark.readStream.format("kafka").options(**KAFKA_SOURCE | options.kafka_options)
    records = (
        # By a list of topics, the query would fail while a topic is missing.
        source.option("subscribePattern", "|".join(map(re.escape, (REPORTS, HOLDS))))
        .option("startingOffsets", starts)
        .option("fetchOffset.numRetries", OFFSET_RETRIES)
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
        options.hold_notes,
        first_new_batch,
    )
    writer = records.writeStream.queryName(f"pid-quota-{FOLDER}").foreachBatch(with_short_errors(commit))
    writer = writer.option("checkpointLocation", checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{TRIGGER_MS} milliseconds").start()


def _beginning(spark: SparkSession, tables: str, checkpoint: str, *, has_holds: bool) -> tuple[str, int]:
    """Check the checkpoint. Return where a new one would start, and the first batch that has not begun yet."""
    otherwise = f"delete the folder {checkpoint}, and start again: it resumes where the rows of its tables end"
    begun = newest_batch(checkpoint, otherwise)
    commits = [newest_metadata(spark, tables, table) for table in TABLES]
    offsets = resume_offsets([commit for commit in commits if commit])
    return _of_existing(offsets, has_holds=has_holds), 0 if begun is None else begun + 1


def _of_existing(starts: str, *, has_holds: bool) -> str:
    """Return starting offsets with the topic of holds exactly if it exists, because Spark takes no others."""
    if starts == EARLIEST:
        return starts
    offsets = parse_offsets(starts)
    # The topic has one partition.
    holds = {HOLDS: offsets.pop(HOLDS, {0: _OLDEST})}
    return as_spark_json(offsets | holds if has_holds else offsets) if offsets else EARLIEST


@dataclass(frozen=True)
class CommitReports:
    """The function that `foreachBatch` calls.

    Attributes:
        stream_id: Id of the stream. The query appends the id of its own checkpoint.
        checkpoint: The stream's checkpoint.
        observer: Called with the states that a batch's plugins report.
        notes: The rows of the stream's own plan.
        first_new_batch: Earlier batches may be in the tables already, so they take no rows of the plan.
    """

    tables: str
    sink: SinkName | None
    stream_id: str
    checkpoint: str
    parser: ReportParser
    watch: BrokerWatch
    known: KnownBlocks
    observer: Callable[[Sequence[PluginState]], None] | None = field(default=None, repr=False)
    notes: PendingRows | None = field(default=None, repr=False)
    first_new_batch: int = 0
    holds: HoldWatch = field(default_factory=HoldWatch, repr=False)

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
            parsed.holds += part.holds
            parsed.hold_records += part.hold_records
            inits.append(table_rows([init_row(each) for each in part.inits], "producer_inits", batch_id))
        blocks = self.known.new(spark, parsed.blocks)
        noted = self._noted(batch_id)
        holds = [*self.holds.rows(parsed.hold_records, parsed.holds), *noted]
        # Step 2. Append to each table that gets rows. Tables recognise a repeated batch by its number.
        rows = {
            "broker_status": table_rows(self.watch.see(parsed.states), "broker_status", batch_id),
            "pid_blocks": table_rows([block_row(each) for each in blocks], "pid_blocks", batch_id),
            "producer_inits": pa.concat_tables(inits) if inits else pa.table({}),
            "holds": table_rows(holds, "holds", batch_id),
        }
        self._append(spark, rows, batch_id)
        self.known.add(blocks)
        self.holds.written()
        if self.notes and noted:
            self.notes.written(len(noted))
        # Step 3. Tell the stream below which PID it learns if PIDs are forgotten.
        save_next_producer_id(self.checkpoint, self.watch.next_producer_id())
        if self.observer:
            self.observer([each.state for each in parsed.states])
        # Step 4. End the stream if the plugins' settings don't fit.
        self.watch.check_settings(time.time_ns() // 1_000_000)

    def _noted(self, batch_id: int) -> list[Row]:
        if self.notes is None or batch_id < self.first_new_batch:
            return []
        return self.notes.pending()

    def _parts(self, records: DataFrame) -> Iterator[Parsed]:
        is_hold = f"topic = '{HOLDS}'"
        key = f"CASE WHEN {is_hold} THEN key END AS key"
        values = records.selectExpr(is_hold, key, "value", "unix_millis(timestamp) AS appended_ms").toArrow()
        for part in values.to_batches():
            columns = (column.to_pylist() for column in part.columns)
            yield self.parser.parse(TopicRecord(*record) for record in zip(*columns, strict=True))

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

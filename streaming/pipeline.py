"""The stream's whole flow, from produce events to decisions and metrics.

Kafka ─▶ decode and pre-aggregate ─▶ one ledger per principal, with its quota ─▶ Delta tables
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from quota.config import QuotaConfig
from state.events import Deployment
from streaming.batch.context import written_batches
from streaming.batch.tasks import TaskBatch
from streaming.checkpoint.commit_metadata import EARLIEST
from streaming.checkpoint.data_loss import Extent, LossDetector, load_loss_record
from streaming.checkpoint.identity import CheckpointOptions, StreamIdentity, open_identity
from streaming.commit.commit import Commit
from streaming.commit.deltalake_sink import DeltalakeSink
from streaming.commit.pending_rows import PendingRows
from streaming.commit.sinks import BatchSummary, DeltaSink, TableSink
from streaming.databricks import is_local
from streaming.decode.preaggregate import PreAggregate
from streaming.failures import with_short_errors
from streaming.operator.ledger_operator import STATE_SCHEMA, Operator
from streaming.operator.rows import OUTPUT_SCHEMA
from streaming.triggers import AVAILABLE_NOW, interval, records_of_a_batch
from tables.schema.specs import SinkName
from wire.packed_events import PRE_AGGREGATE_SCHEMA
from wire.plugin_reports import PluginState

CONSUMER_SETTINGS = {
    # After each poll Spark asks for the first and last offset. The consumer then drops prefetched records. With large
    # polls, it read 740,000 events/s instead of 304,000 (2 cores).
    "kafka.max.poll.records": "5000",
    # The requests for offsets, two per partition, wait behind a fetch at the end of the log. By default, a fetch waits
    # 500 ms for records.
    "kafka.fetch.max.wait.ms": "1",
}
"""Settings of the Kafka consumer. `StreamOptions.kafka_options` override them."""
KAFKA_SOURCE = {
    # The user needs a right on its groups, and other users of Spark use the default prefix.
    "groupIdPrefix": "pid-quota",
    # Spark tries three times, so the stream fails after a minute without an answer.
    "kafka.request.timeout.ms": "20000",
    "kafka.default.api.timeout.ms": "20000",
}
"""Options of both queries' Kafka sources."""

STATE_BUCKETS = 24
"""Number of states that all principals share. Spark spreads 24 buckets evenly over two or four partitions."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Options of a stream.

    Attributes:
        kafka_options: Options of Spark's Kafka source, including `kafka.bootstrap.servers`.
        tables: Path of the tables' folder, or `catalog.schema`.
        trigger: An interval such as '5 seconds'; `asap`; or `available-now`: read the existing records, then end.
        learn_until_ms: End of the learning time of a first start, in event time; 0 if the topic still has all records.
        learn_below: The cluster's next producer id, below which a first start learns; None if unknown.
        max_offsets_per_trigger: Maximum number of records of a micro-batch, by default `records_of_a_batch`.
        events_per_record: Mean number of events per record in the topic when the stream starts.
        max_principals: Maximum number of principals with their own ledger. Others share ledgers, and are not throttled.
        new_checkpoint: Whether the stream may start on tables with rows of an earlier stream.
        extent: Asks the brokers which offsets the topic holds. If None, the stream ignores lost records.
        sink: Writer of the tables, by default as in `open_sink`.
        observer: Called with each batch whose rows are in the tables.
        decided: Called with each batch whose decisions are in their table, before `observer`.
        plugin_observer: Called with the states that plugins report.
        hold_notes: Rows of the table `holds` that the stream's own plan hands over.
    """

    topic: str
    kafka_options: dict[str, str] = field(repr=False)
    tables: str
    checkpoint: str
    trigger: str = "5 seconds"
    learn_until_ms: int = 0
    learn_below: int | None = None
    max_offsets_per_trigger: int | None = None
    events_per_record: float = 1.0
    max_principals: int = 50_000
    config: QuotaConfig = field(default_factory=QuotaConfig)
    new_checkpoint: bool = False
    extent: Callable[[], Extent] | None = field(default=None, repr=False)
    sink: SinkName | None = None
    observer: Callable[[BatchSummary], None] | None = field(default=None, repr=False)
    decided: Callable[[BatchSummary], None] | None = field(default=None, repr=False)
    plugin_observer: Callable[[Sequence[PluginState]], None] | None = field(default=None, repr=False)
    hold_notes: PendingRows | None = field(default=None, repr=False)

    @property
    def most_records(self) -> int:
        """The maximum number of records of a micro-batch."""
        return self.max_offsets_per_trigger or records_of_a_batch(self.trigger, self.events_per_record)

    @property
    def of_checkpoint(self) -> CheckpointOptions:
        """The options that the checkpoint stores."""
        return CheckpointOptions(self.checkpoint, self.config, self.learn_until_ms, self.learn_below)


def start(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start the stream.

    Raises:
        CheckpointError: If the checkpoint can't be used with these settings.
    """
    written = written_batches(options.checkpoint)
    identity = open_identity(
        spark, options.tables, options.of_checkpoint, written, new_checkpoint=options.new_checkpoint
    )
    deployment = deployment_of(identity, options)
    sink = open_sink(options.tables, identity.stream_id, options.sink)
    watch = loss_detector(options, identity.starting_offsets)

    records = read_records(spark, options, identity.starting_offsets)
    pre_aggregates = pre_aggregate_records(records, options)
    output = apply_rules(pre_aggregates, deployment, options)
    commit = Commit(
        sink, identity.stream_id, options.checkpoint, options.tables, watch, options.observer, options.decided
    )
    return write(output, options, commit)


def deployment_of(identity: StreamIdentity, options: StreamOptions) -> Deployment:
    """Return the settings that all ledgers share. After a loss of records, the stream learns again."""
    learning = identity.learning.later(load_loss_record(options.checkpoint).learning)
    return Deployment(options.config, identity.salt, learning.until_ms, learning.below)


def open_sink(tables: str, stream_id: str, name: SinkName | None = None) -> TableSink:
    """Return the writer `name`. The default is `deltalake` for tables in a local folder, else delta-spark."""
    if name is None:
        name = "deltalake" if is_local(tables) else "delta-spark"
    return DeltaSink(tables, stream_id) if name == "delta-spark" else DeltalakeSink(tables, stream_id)


def loss_detector(options: StreamOptions, starting_offsets: str) -> LossDetector | None:
    """Return the detector of lost records; None if the options have no `extent`."""
    if options.extent is None:
        return None
    window_ms, now_ms = options.config.window_ms, lambda: time.time_ns() // 1_000_000
    return LossDetector(options.checkpoint, options.topic, window_ms, starting_offsets, options.extent, now_ms)


def read_records(spark: SparkSession, options: StreamOptions, starting_offsets: str = EARLIEST) -> DataFrame:
    """Read the topic into columns `value`, `partition`, `offset` and `record_ms` (the record's Kafka timestamp)."""
    source = spark.readStream.format("kafka").options(**KAFKA_SOURCE | CONSUMER_SETTINGS | options.kafka_options)
    records = (
        source.option("subscribe", options.topic)
        .option("startingOffsets", starting_offsets)
        # `LossDetector` reports gaps.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", options.most_records)
        .load()
    )
    rows = records.selectExpr("value", "partition", "offset", "unix_millis(timestamp) AS record_ms")
    tasks = _max_tasks(spark)
    return rows if tasks is None else rows.coalesce(tasks)


def _max_tasks(spark: SparkSession) -> int | None:
    """Return the maximum number of tasks that read the topic; None for one per partition."""
    if not str(spark.conf.get("spark.master", "")).startswith("local"):
        return None
    # Each task costs a round trip to a Python worker. The number of state partitions is about the number of cores.
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def pre_aggregate_records(records: DataFrame, options: StreamOptions) -> DataFrame:
    """Decode the records into one row per principal, partition and block of records."""
    pre_aggregate = PreAggregate(
        topic=options.topic,
        max_principals=options.max_principals,
        batch=TaskBatch(options.checkpoint),
        max_tasks=_max_tasks(records.sparkSession),
    )
    return records.select("value", "partition", "offset", "record_ms").mapInArrow(pre_aggregate, PRE_AGGREGATE_SCHEMA)


def apply_rules(pre_aggregates: DataFrame, deployment: Deployment, options: StreamOptions) -> DataFrame:
    """Apply each principal's events to its ledger. Return rows of decisions, metrics and quarantined records."""
    operator = Operator(deployment, TaskBatch(options.checkpoint))
    bucket = expr(f"pmod(xxhash64(principal), {STATE_BUCKETS})")
    grouped = pre_aggregates.withColumn("bucket", bucket).groupBy("bucket")
    return grouped.applyInPandasWithState(operator, OUTPUT_SCHEMA, STATE_SCHEMA, "append", "ProcessingTimeTimeout")


def write(output: DataFrame, options: StreamOptions, commit: Commit) -> StreamingQuery:
    """Start the query, which commits each micro-batch under its number."""
    writer = output.writeStream.queryName("pid-quota").foreachBatch(with_short_errors(commit)).outputMode("append")
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=interval(options.trigger)).start()

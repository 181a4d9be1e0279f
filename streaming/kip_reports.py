"""Small queries beside the stream: where producer ids come from (KIP-730) and why clients ask for them (KIP-360).

Each copies one topic of the taps to one table, with a checkpoint of its own below the stream's, and touches no quota.
Only taps may write these topics; what is not of their form is passed over.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StreamingQuery

from streaming.identity import load_or_create
from streaming.pipeline import AVAILABLE_NOW, StreamOptions, open_sink
from streaming.sinks import TableSink

TRIGGER = "30 seconds"
MAX_TEXT_CHARS = 256
"""Longer texts of clients are cut: Kafka allows 32 kB, in each of as many requests as they like."""

_BLOCK = (
    "timestamp_ms BIGINT, broker_id INT, broker_epoch BIGINT, first_producer_id BIGINT, length INT, error INT, "
    "throttle_time_ms INT"
)
_INIT = (
    "timestamp_ms BIGINT, broker_id INT, principal STRING, client_id STRING, client_host STRING, "
    "transactional_id STRING, producer_id BIGINT, producer_epoch INT, result_producer_id BIGINT, "
    "result_producer_epoch INT, error STRING, repeated BOOLEAN"
)
_ERROR_NAMES = {
    0: "NONE",
    -1: "UNKNOWN_SERVER_ERROR",
    7: "REQUEST_TIMED_OUT",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    35: "UNSUPPORTED_VERSION",
    41: "NOT_CONTROLLER",
    77: "STALE_BROKER_EPOCH",
    102: "BROKER_ID_NOT_REGISTERED",
}
"""Errors that a controller answers ALLOCATE_PRODUCER_IDS with, by code; others keep their number."""


def block_rows(records: DataFrame, batch_id: int) -> DataFrame:
    """Return rows of `pid_blocks`.

    Args:
        records: Records of the topic `producer-id-blocks`: `value` (binary).
        batch_id: Micro-batch they come in.
    """
    names = ", ".join(f"{code}, '{name}'" for code, name in _ERROR_NAMES.items())
    return (
        _parsed(records, _BLOCK)
        .where("broker_id IS NOT NULL AND first_producer_id IS NOT NULL AND length IS NOT NULL AND error IS NOT NULL")
        .selectExpr(
            "broker_id",
            "coalesce(broker_epoch, -1) AS broker_epoch",
            "first_producer_id",
            "length",
            "timestamp_millis(timestamp_ms) AS allocated_at",
            f"coalesce(element_at(map({names}), error), concat('ERROR_', error)) AS error",
            "coalesce(throttle_time_ms, 0) AS throttle_time_ms",
            f"{batch_id}L AS batch_id",
        )
    )


def init_rows(records: DataFrame, batch_id: int) -> DataFrame:
    """Return rows of `producer_inits`; arguments as of `block_rows`, from the topic `producer-inits`."""
    return (
        _parsed(records, _INIT)
        .where("principal IS NOT NULL AND error IS NOT NULL AND result_producer_id IS NOT NULL")
        .selectExpr(
            "timestamp_millis(timestamp_ms) AS answered_at",
            "broker_id",
            "principal",
            f"left(coalesce(client_id, ''), {MAX_TEXT_CHARS}) AS client_id",
            "client_host",
            f"left(transactional_id, {MAX_TEXT_CHARS}) AS transactional_id",
            "coalesce(producer_id, -1) AS producer_id",
            "coalesce(producer_epoch, -1) AS producer_epoch",
            "result_producer_id",
            "coalesce(result_producer_epoch, -1) AS result_producer_epoch",
            "error",
            "coalesce(repeated, false) AS repeated",
            f"{batch_id}L AS batch_id",
        )
    )


def _parsed(records: DataFrame, schema: str) -> DataFrame:
    report = fn.from_json(fn.col("value").cast("STRING"), schema).alias("report")
    return records.select(report).where("report.timestamp_ms IS NOT NULL").select("report.*")


@dataclass(frozen=True)
class Report:
    """One topic of the taps and its table.

    Attributes:
        topic: Where taps write.
        table: Where the rows go.
        folder: Of its checkpoint, below the stream's.
        rows: Makes rows of records.
    """

    topic: str
    table: str
    folder: str
    rows: Callable[[DataFrame, int], DataFrame]


REPORTS: Mapping[str, Report] = MappingProxyType(
    {
        report.topic: report
        for report in (
            Report("producer-id-blocks", "pid_blocks", "blocks", block_rows),
            Report("producer-inits", "producer_inits", "inits", init_rows),
        )
    }
)
"""The queries of this module, by topic."""


def start_kip_reports(spark: SparkSession, options: StreamOptions, topics: Collection[str]) -> list[StreamingQuery]:
    """Start the queries of those topics that are there, beside the stream of the same options.

    Raises:
        CheckpointError: As of `streaming.pipeline.start`.
    """
    identity = load_or_create(
        options.checkpoint, options.config, options.scope, options.learn_until_ms, options.state_buckets
    )
    sink = open_sink(options.tables, identity.stream_id, options.sink)
    return [_start(spark, options, REPORTS[topic], sink) for topic in REPORTS if topic in topics]


def _start(spark: SparkSession, options: StreamOptions, report: Report, sink: TableSink) -> StreamingQuery:
    source = spark.readStream.format("kafka").options(**options.kafka_options)
    records = (
        source.option("subscribe", report.topic)
        .option("startingOffsets", "earliest")
        # What retention took before it was read is gone: these reports say nothing that a decision depends on.
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
        .load()
    )
    writer = records.writeStream.queryName(f"pid-quota-{report.folder}").foreachBatch(CommitReport(report, sink))
    writer = writer.option("checkpointLocation", f"{options.checkpoint}/{report.folder}")
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=TRIGGER).start()


@dataclass(frozen=True)
class CommitReport:
    """The function for `foreachBatch`.

    Attributes:
        report: Which topic and table.
        sink: Where the rows go.
    """

    report: Report
    sink: TableSink

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append the rows of a batch, if there are any; a batch that was appended before changes nothing."""
        rows = self.report.rows(records, batch_id)
        if not rows.isEmpty():
            self.sink.append(rows, self.report.table, batch_id)

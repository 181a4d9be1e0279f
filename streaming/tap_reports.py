"""The second query of the stream: what the taps report of themselves, from the topic `tap-status` to its table.

It has a checkpoint of its own below the stream's, and touches no quota: if nobody watches a broker, its offenders are
invisible, and that must be seen in the same place as the decisions.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StreamingQuery

from streaming.identity import load_or_create
from streaming.pipeline import AVAILABLE_NOW, StreamOptions, open_sink
from streaming.sinks import TableSink

TAP_STATUS_TOPIC = "tap-status"
TRIGGER = "30 seconds"
_TABLE = "tap_status"
_REPORT = (
    "timestamp_ms BIGINT, broker_id INT, host STRING, tap_id STRING, source STRING, "
    "counters STRUCT<lines: BIGINT, events: BIGINT, unplaced: BIGINT>, "
    "unplaced_share DOUBLE, behind_bytes BIGINT, newest_line_ms BIGINT, stopped BOOLEAN, cluster_brokers ARRAY<INT>"
)


def start_tap_reports(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start the query beside the stream of the same options; errors as of `streaming.pipeline.start`."""
    source = spark.readStream.format("kafka").options(**options.kafka_options)
    records = source.option("subscribe", TAP_STATUS_TOPIC).option("startingOffsets", "earliest").load()
    identity = load_or_create(
        options.checkpoint, options.config, options.scope, options.learn_until_ms, options.state_buckets
    )
    commit = CommitReports(open_sink(options.tables, identity.stream_id, options.sink))
    writer = records.writeStream.queryName("pid-quota-taps").foreachBatch(commit)
    writer = writer.option("checkpointLocation", f"{options.checkpoint}/taps")
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=TRIGGER).start()


@dataclass(frozen=True)
class CommitReports:
    """The function for `foreachBatch`.

    Attributes:
        sink: Where the rows go.
    """

    sink: TableSink

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Write the newest report of each broker in a batch, and the brokers of the cluster that have none."""
        rows = status_rows(records, batch_id)
        if not rows.isEmpty():
            self.sink.append(rows, _TABLE, batch_id)


def status_rows(records: DataFrame, batch_id: int) -> DataFrame:
    """Return rows of `tap_status`.

    Args:
        records: Records of the topic: `value` (binary), `offset`.
        batch_id: Micro-batch they come in.
    """
    reports = records.select(fn.from_json(fn.col("value").cast("STRING"), _REPORT).alias("report"), "offset")
    # A broker's reports are in one partition, so offsets order them. Who can write here can only vouch for himself.
    newest = (
        reports.where("report.broker_id IS NOT NULL AND report.timestamp_ms IS NOT NULL")
        .groupBy("report.broker_id")
        .agg(fn.max_by("report", "offset").alias("report"))
        .select("report.*")
    )
    reported = newest.selectExpr(
        "broker_id",
        "timestamp_millis(timestamp_ms) AS seen_at",
        "timestamp_millis(timestamp_ms) AS reported_at",
        "host",
        "tap_id",
        "source",
        "counters.lines AS lines",
        "counters.events AS events",
        "counters.unplaced AS unplaced",
        "unplaced_share",
        "behind_bytes",
        "timestamp_millis(newest_line_ms) AS newest_line_at",
        "coalesce(stopped, false) AS stopped",
    )
    listed = newest.selectExpr("explode(cluster_brokers) AS broker_id", "timestamp_ms")
    unreported = (
        listed.groupBy("broker_id")
        .agg(fn.expr("timestamp_millis(max(timestamp_ms)) AS seen_at"))
        .join(reported.select("broker_id"), "broker_id", "left_anti")
    )
    rows = reported.unionByName(unreported, allowMissingColumns=True)
    return rows.withColumn("batch_id", fn.lit(batch_id).cast("BIGINT"))

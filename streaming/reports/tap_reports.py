"""Rows of the taps' heartbeats, from the topic `tap-status`.

Offenders on a broker without a tap are invisible, which must show in the same place as the decisions.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from wire.columns import HEARTBEAT_COLUMNS

# Until the end of the year 9999: later timestamps would fail the query.
_IS_TIME = "BETWEEN 0 AND 253402300799999"


def status_rows(records: DataFrame, batch_id: int) -> DataFrame:
    """Return rows of `tap_status`.

    Args:
        records: Records of the topic: `value` (binary), `offset`.
        batch_id: Micro-batch they come in.
    """
    reports = records.select(fn.from_json(fn.col("value").cast("STRING"), HEARTBEAT_COLUMNS).alias("report"), "offset")
    # A broker's reports are in one partition, so offsets order them.
    newest = (
        reports.where(f"report.broker_id IS NOT NULL AND report.timestamp_ms {_IS_TIME}")
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
        f"timestamp_millis(CASE WHEN newest_line_ms {_IS_TIME} THEN newest_line_ms END) AS newest_line_at",
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

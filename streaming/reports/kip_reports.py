"""Rows of the taps' reports on blocks of producer ids (KIP-730) and on INIT_PRODUCER_ID requests (KIP-360).

Malformed records are skipped.
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from wire.columns import ID_BLOCK_COLUMNS, INIT_COLUMNS

MAX_TEXT_CHARS = 256
"""Longer texts from clients are truncated. Kafka allows 32 kB."""


def block_rows(records: DataFrame) -> pa.Table:
    """Return rows of `pid_blocks`, without `batch_id`, from records of the topic `producer-id-blocks`."""
    return (
        _parsed(records, ID_BLOCK_COLUMNS)
        .where("broker_id IS NOT NULL AND first_producer_id IS NOT NULL AND length > 0")
        .selectExpr(
            "broker_id",
            "coalesce(broker_epoch, -1) AS broker_epoch",
            "first_producer_id",
            "length",
            "timestamp_millis(timestamp_ms) AS allocated_at",
        )
        .toArrow()
    )


def init_rows(records: DataFrame) -> pa.Table:
    """Return rows of `producer_inits`, without `batch_id`, from records of the topic `producer-inits`."""
    return (
        _parsed(records, INIT_COLUMNS)
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
        )
        .toArrow()
    )


def _parsed(records: DataFrame, schema: str) -> DataFrame:
    report = fn.from_json(fn.col("value").cast("STRING"), schema).alias("report")
    return records.select(report).where("report.timestamp_ms IS NOT NULL").select("report.*")

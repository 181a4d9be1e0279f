"""Rows of the taps' heartbeats, from the topic `tap-status`. The stream also logs which brokers no tap sees."""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from tables.schema.ddl import row_schema
from wire.columns import HEARTBEAT_COLUMNS

# Timestamps after the year 9999 would make the query fail.
_IS_TIME = "BETWEEN 0 AND 253402300799999"


_log = logging.getLogger(__name__)


class UnseenBrokers:
    """Logs when no tap sees a broker's producers, when the reason changes, and when a tap sees the producers again."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}

    def __call__(self, rows: pa.Table) -> None:
        """Log the changes in new rows of `tap_status`."""
        for row in rows.to_pylist():
            broker_id, reason = row["broker_id"], _why_unseen(row)
            if reason and self._reasons.get(broker_id) != reason:
                _log.warning(
                    "no tap sees broker %d, so nobody is throttled for new producer ids there: %s "
                    "(see `pid-quota tap status`)",
                    broker_id,
                    reason,
                )
                self._reasons[broker_id] = reason
            elif not reason and self._reasons.pop(broker_id, ""):
                _log.warning("a tap sees broker %d again", broker_id)


def _why_unseen(row: dict[str, Any]) -> str:
    if row["reported_at"] is None:
        return "no tap reports for it"
    if row["problem"]:
        return str(row["problem"])
    return "its tap stopped" if row["stopped"] else ""


def status_rows(records: DataFrame) -> pa.Table:
    """Return rows of `tap_status`, without `batch_id`.

    Spark only parses the records (`value`, `offset`). Grouping a few hundred rows here is faster than a shuffle.
    """
    reports = records.select(fn.from_json(fn.col("value").cast("STRING"), HEARTBEAT_COLUMNS).alias("report"), "offset")
    parsed = reports.where(f"report.broker_id IS NOT NULL AND report.timestamp_ms {_IS_TIME}").select(
        "report.*", "offset"
    )
    reported = parsed.selectExpr(
        "broker_id",
        "timestamp_millis(timestamp_ms) AS seen_at",
        "timestamp_millis(timestamp_ms) AS reported_at",
        "host",
        "tap_id",
        "source || CASE WHEN source = 'file' AND position IS NULL THEN ': not there' ELSE '' END AS source",
        "counters.lines AS lines",
        "counters.events AS events",
        "behind_bytes",
        f"timestamp_millis(CASE WHEN newest_line_ms {_IS_TIME} THEN newest_line_ms END) AS newest_line_at",
        "coalesce(stopped, false) AS stopped",
        "problem",
        "cluster_brokers",
        "offset",
    )
    newest = _newest(reported.toArrow())
    schema = row_schema("tap_status")
    schema = schema.remove(schema.get_field_index("batch_id"))
    return pa.Table.from_pylist([*newest, *_unreported(newest)], schema)


def _newest(reports: pa.Table) -> list[dict[str, Any]]:
    """Return each broker's newest report. A broker's reports are in one partition, so offsets show their order."""
    ordered = reports.sort_by("offset")
    newest = {broker_id: place for place, broker_id in enumerate(ordered["broker_id"].to_pylist())}
    rows: list[dict[str, Any]] = ordered.take(pa.array(newest.values(), pa.int64())).to_pylist()
    return rows


def _unreported(newest: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each broker without a report of its own that appears in the reports of other brokers."""
    reported = {row["broker_id"] for row in newest}
    seen = sorted((row["seen_at"], broker_id) for row in newest for broker_id in row["cluster_brokers"] or ())
    last = {broker_id: seen_at for seen_at, broker_id in seen}
    for broker_id in last.keys() - reported:
        yield {"broker_id": broker_id, "seen_at": last[broker_id]}

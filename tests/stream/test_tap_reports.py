import json
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming.reports.tap_reports import UnseenBrokers, status_rows
from tables.schema.ddl import row_schema
from tests.kits.stream_kit import START_MS


def records(spark: SparkSession, *values: object) -> DataFrame:
    rows = [(bytearray(json.dumps(value).encode()), offset) for offset, value in enumerate(values)]
    # Not in the order of their offsets.
    return spark.createDataFrame(rows[::-1], "value BINARY, offset BIGINT")


def report(broker_id: int, at_ms: int, **others: object) -> dict[str, object]:
    return {
        "timestamp_ms": START_MS + at_ms,
        "broker_id": broker_id,
        "host": "h",
        "counters": {"lines": at_ms},
        **others,
    }


def test_the_newest_report_of_each_broker_becomes_a_row_of_the_table(spark: SparkSession) -> None:
    rows = status_rows(records(spark, report(1, 5), report(1, 7, stopped=True), report(2, 6)))

    assert rows.schema.names == row_schema("tap_status").names[:-1]
    assert sorted((row["broker_id"], row["lines"], row["stopped"]) for row in rows.to_pylist()) == [
        (1, 7, True),
        (2, 6, False),
    ]


def test_a_broker_of_the_cluster_that_no_tap_reports_for_is_named_as_it_was_last_seen(spark: SparkSession) -> None:
    beats = (report(1, 9, cluster_brokers=[1, 9]), report(3, 5, cluster_brokers=[3, 8, 9]), report(4, 7))

    rows = status_rows(records(spark, *beats)).to_pylist()

    unwatched = [(row["broker_id"], row["seen_at"]) for row in rows if row["reported_at"] is None]
    seen_at = {ms: datetime.fromtimestamp((START_MS + ms) / 1000, tz=timezone.utc) for ms in (5, 9)}
    assert sorted(unwatched) == [(8, seen_at[5]), (9, seen_at[9])]


def test_a_file_that_is_not_there_and_a_class_that_sees_nothing_are_said_where_coverage_is_shown(
    spark: SparkSession,
) -> None:
    beats = (
        report(1, 5, source="file", position={"type": "file", "inode": 1, "offset": 0}),
        report(3, 5, source="file", position={"offset": 7}, problem="Kafka 9.9.9 is not known"),
        report(4, 5, source="file", position=None),
        report(5, 5, source="topic"),
    )

    rows = status_rows(records(spark, *beats)).to_pylist()

    assert [(row["source"], row["problem"]) for row in sorted(rows, key=lambda row: row["broker_id"])] == [
        ("file", None),
        ("file", "Kafka 9.9.9 is not known"),
        ("file: not there", None),
        ("topic", None),
    ]


@pytest.mark.parametrize(("values", "rows"), [([], 0), (["text"], 0), (["text", {"lines": 4}, [1], report(1, 5)], 1)])
def test_invalid_reports_are_skipped(spark: SparkSession, values: list[object], rows: int) -> None:
    assert status_rows(records(spark, *values)).num_rows == rows


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63), 253_402_300_800_000, -1])
def test_a_time_that_is_none_ends_no_query(edge: int, spark: SparkSession) -> None:
    forged = {**report(1, 6), "timestamp_ms": edge}
    rows = status_rows(records(spark, report(1, 5, newest_line_ms=edge), report(2, 5), forged)).to_pylist()

    assert {row["broker_id"]: row["newest_line_at"] for row in rows} == {1: None, 2: None}


def test_a_broker_that_is_not_seen_is_logged_once_with_the_reason(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    tell = UnseenBrokers()
    blind = report(2, 5, problem="Kafka 9.9.9 is not known", cluster_brokers=[1, 2, 3])
    for beats in ((report(1, 5), blind), (report(1, 6), blind), (report(1, 7), report(2, 7), report(3, 7))):
        tell(status_rows(records(spark, *beats)))

    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(",")[0] for text in said] == [
        *("no tap sees broker 2", "no tap sees broker 3"),
        *("a tap sees broker 2 again", "a tap sees broker 3 again"),
    ]
    assert "Kafka 9.9.9 is not known" in said[0]
    assert "no tap reports for it" in said[1]


def test_a_broker_that_is_not_seen_for_another_reason_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    tell, row = UnseenBrokers(), {"broker_id": 2, "reported_at": datetime.now(timezone.utc), "stopped": False}

    for now in ({"problem": "Kafka 9.9.9 is not known"}, {"problem": None, "stopped": True}, {"stopped": True}):
        tell(pa.Table.from_pylist([row | {"problem": None} | now]))

    said = [record.getMessage() for record in caplog.records]
    assert ["Kafka 9.9.9 is not known" in text for text in said] == [True, False]
    assert "its tap stopped" in said[1]

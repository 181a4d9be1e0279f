"""State buckets in a real stream: the rows are those of a state for each principal."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.checkpoint.identity import DEFAULT_STATE_BUCKETS
from tests.kits.stream_kit import START_MS, Stream, event

PARTITIONS = "spark.sql.shuffle.partitions"
HOUR_MS = 3_600_000
TABLES = ("throttle_decisions", "producer_id_metrics", "quarantined_events")


@pytest.mark.slow
def test_rows_are_those_of_a_state_for_each_principal(spark: SparkSession, tmp_path: Path) -> None:
    streams = [
        Stream(spark, tmp_path / str(buckets), state_buckets=buckets) for buckets in (0, 3, DEFAULT_STATE_BUCKETS)
    ]
    for stream in streams:
        stream.quota(5)
        for batch, at_ms in enumerate((0, 30_000, 14 * HOUR_MS, 30 * HOUR_MS)):
            pids = range(batch * 4, batch * 4 + 50)
            values = [event(pid, f"User:p{pid % 5}", at_ms + pid * 1000) for pid in (*pids, *pids)]
            stream.batch_at(START_MS + at_ms, *values, b"not an event %d" % batch)
        stream.run()

    each, few, by_default = ({table: rows_of(stream, table) for table in TABLES} for stream in streams)

    assert all(each.values())
    assert few == each
    assert by_default == each


def rows_of(stream: Stream, table: str) -> list[str]:
    """All rows but the last ones of principals that are forgotten: that may be early or late."""
    return sorted(str(row) for row in stream.rows(table) if row.get("rate") != 0)


def test_a_checkpoint_keeps_its_state_partitions_on_a_host_with_other_cores(
    spark: SparkSession, stream: Stream
) -> None:
    # given a checkpoint made with two state partitions
    stream.quota(5)
    stream.batch(*(event(pid, f"User:p{pid % 20}") for pid in range(200)))
    spark.conf.set(PARTITIONS, 2)
    stream.run()
    refused = throttled(stream)

    # when it goes on where a new one would get more
    try:
        spark.conf.set(PARTITIONS, 5)
        stream.batch(*(event(pid, f"User:p{pid % 20}", 1000) for pid in range(200)))
        stream.run()
    finally:
        spark.conf.set(PARTITIONS, 2)

    # then it has found all ledgers, none of whose PIDs is new
    assert len(set(refused)) == 20
    assert throttled(stream) == refused
    assert sorted(each.name for each in (stream.root / "checkpoint" / "state" / "0").glob("[0-9]*")) == ["0", "1"]


def throttled(stream: Stream) -> list[str]:
    return sorted(row["principal"] for row in stream.rows("throttle_decisions") if row["action"] == "THROTTLE")

"""Partitions far behind, and six hours of outage: all of it is processed, and nobody is judged by another's clock."""

from datetime import datetime, timezone
from pathlib import Path

from pyspark.sql import SparkSession

from tests.kits.stream_kit import START_MS, Stream, event

HOUR_MS = 3_600_000


def lagging(batch: int) -> list[bytes]:
    """A principal with as many PIDs as its quota of 10 allows, three hours ago."""
    return [event(pid, "User:behind", batch * 60_000 - 3 * HOUR_MS) for pid in range(10)]


def test_a_partition_three_hours_behind_is_processed_as_if_it_were_alone_and_throttles_nobody(
    spark: SparkSession, tmp_path: Path
) -> None:
    together, alone = (Stream(spark, tmp_path / name) for name in ("together", "alone"))
    for stream in (together, alone):
        stream.quota(10)
    for batch in range(2):
        in_time = [event(pid, "User:ahead", batch * 60_000) for pid in range(10)]
        # Of this one, others than the plugins wrote to both partitions.
        split = [event(500 + pid, "User:split", batch * 60_000) for pid in range(5)]
        late = [event(900 + pid, "User:split", -3 * HOUR_MS) for pid in range(50)] if batch else []
        together.batch_at(START_MS, *in_time, *split, partition=0)
        together.batch_at(START_MS, *lagging(batch), *late, partition=1)
        alone.batch_at(START_MS, *lagging(batch), partition=1)

    together.run()
    alone.run()

    assert together.said_of("User:behind") == alone.said_of("User:behind")
    assert together.rows("throttle_decisions") == []
    assert together.rows("quarantined_events") == []
    of_split = [row for row in together.rows("producer_id_metrics") if row["principal"] == "User:split"]
    assert sum(int(str(row["late_pids"])) for row in of_split) == 50
    assert of_split[-1]["active_pids"] == 5


def test_six_hours_of_outage_are_made_up_for_without_a_quota_that_begins_anew_or_a_throttle_that_still_holds(
    spark: SparkSession, tmp_path: Path
) -> None:
    interrupted, steady = (Stream(spark, tmp_path / name) for name in ("interrupted", "steady"))
    hours = range(7)
    for stream in (interrupted, steady):
        stream.quota(10)
    first, *backlog = [[event(100 * hour + n, at_ms=hour * HOUR_MS) for n in range(30)] for hour in hours]
    end_ms = START_MS + 6 * HOUR_MS
    steady.batch_at(end_ms, *first, *[value for values in backlog for value in values])
    interrupted.batch_at(end_ms, *first)
    interrupted.run()
    interrupted.batch_at(end_ms, *[value for values in backlog[:3] for value in values])
    interrupted.batch_at(end_ms, *[value for values in backlog[3:] for value in values])

    interrupted.run()
    steady.run()

    def decisions(stream: Stream) -> list[tuple[object, ...]]:
        rows = stream.rows("throttle_decisions")
        return sorted((row["decided_at"], row["action"], row["decision_id"], row["tokens"]) for row in rows)

    assert decisions(interrupted) == decisions(steady)
    # A throttle doubles twice, and the last one has no release yet.
    assert len(decisions(interrupted)) == 4 * len(hours) - 1
    # Each names its own end: a stream that comes hours later finds all but those of the last hour past.
    ends = sorted(row["throttled_until"] for row in interrupted.rows("throttle_decisions"))
    last_hour = datetime.fromtimestamp((START_MS + 6 * HOUR_MS) / 1000, tz=timezone.utc)
    assert sum(end > last_hour for end in ends) == 3

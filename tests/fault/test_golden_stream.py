"""Rolling forward: what an earlier version wrote, this one opens and goes on with."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from tests.kits.fault_kit import Stream, bad_offsets
from tests.kits.golden_kit import FOLDER, RECORDS, fill_topic, golden_stream, unpack

METRICS = "producer_id_metrics"
MAX_BYTES = 300_000
STATE_1 = FOLDER / "golden-0.1.0-state-1.tar.gz"
"""Its ledgers can't be read any more."""
NOT_THE_SAME = frozenset({"burst", "decision_id", "state_bytes"})
"""Columns that differ in rows of earlier versions: no burst, other ids, and a ledger without a place for the burst."""


@pytest.fixture(scope="module")
def from_the_start(spark: SparkSession, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """What this version makes of all records, those that the golden stream has read and some more."""
    fill_topic(broker, 2 * RECORDS)
    stream = golden_stream(tmp_path_factory.mktemp("from_the_start"), broker.admin_servers).prepared()
    stream.run(spark)
    return stream


@pytest.mark.parametrize(
    "archive", sorted(set(FOLDER.glob("golden-*.tar.gz")) - {STATE_1}), ids=lambda archive: archive.name
)
def test_tables_and_checkpoint_of_an_earlier_version_open_and_go_on(
    spark: SparkSession, broker: LocalBroker, from_the_start: Stream, tmp_path: Path, archive: Path
) -> None:
    assert archive.stat().st_size < MAX_BYTES
    stream = unpack(archive, tmp_path, broker.admin_servers)
    before = {table: len(rows) for table, rows in stream.everything().items()}

    stream.run(spark)

    after = stream.everything()
    assert {table for table, count in before.items() if len(after[table]) > count} >= {METRICS, "quarantined_events"}
    mine, theirs = stream.meaning(NOT_THE_SAME), from_the_start.meaning(NOT_THE_SAME)
    # The topic is made anew: its records are the same, but for Kafka's own time of them.
    del mine["quarantined_events"], theirs["quarantined_events"]
    assert mine == theirs
    assert bad_offsets(stream) == bad_offsets(from_the_start)
    assert stream.state(spark) == from_the_start.state(spark)


def test_ledgers_of_a_state_version_that_is_not_read_any_more_learn_for_a_window_and_each_is_said_in_a_line(
    spark: SparkSession, broker: LocalBroker, from_the_start: Stream, tmp_path: Path
) -> None:
    stream = unpack(STATE_1, tmp_path, broker.admin_servers)
    last_batch = max(row["batch_id"] for row in stream.rows(METRICS))

    stream.run(spark)

    lost = [row["reason"] for row in stream.rows("quarantined_events") if "lost" in str(row["reason"])]
    phases = {row["phase"] for row in stream.rows(METRICS) if row["batch_id"] > last_batch}
    assert len(lost) == len(from_the_start.state(spark))
    assert all(
        "it restarts in learning mode for a window" in str(reason) and "\n" not in str(reason) for reason in lost
    )
    assert phases == {"learning"}


def test_there_is_a_golden_stream() -> None:
    assert set(FOLDER.glob("golden-*.tar.gz")) > {STATE_1}

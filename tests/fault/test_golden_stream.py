"""Rolling forward: what an earlier version wrote, this one opens and goes on with."""

from pathlib import Path

import pytest
from fault_kit import Stream, bad_offsets
from golden_kit import FOLDER, RECORDS, TOPIC, fill_topic, unpack
from pyspark.sql import SparkSession

from broker.local import LocalBroker

METRICS = "producer_id_metrics"
MOST_BYTES = 300_000
OF_THE_BATCH_BEFORE_0_2 = frozenset({"as_of", "rate", "tokens", "throttle_time_ms"})
"""Version 0.1.0 measured these at the end of a batch, not at the ledger's last change."""


@pytest.fixture(scope="module")
def from_the_start(spark: SparkSession, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """What this version makes of all records, those that the golden stream has read and some more."""
    fill_topic(broker, 2 * RECORDS)
    stream = Stream(tmp_path_factory.mktemp("from_the_start"), broker.admin_servers, TOPIC, RECORDS // 2).prepared()
    stream.run(spark)
    return stream


@pytest.mark.parametrize("archive", sorted(FOLDER.glob("golden-*.tar.gz")), ids=lambda archive: archive.name)
def test_tables_and_checkpoint_of_an_earlier_version_open_and_go_on(
    spark: SparkSession, broker: LocalBroker, from_the_start: Stream, tmp_path: Path, archive: Path
) -> None:
    assert archive.stat().st_size < MOST_BYTES
    stream = unpack(archive, tmp_path, broker.admin_servers)
    before = {table: len(rows) for table, rows in stream.everything().items()}

    stream.run(spark)

    after = stream.everything()
    assert {table for table, count in before.items() if len(after[table]) > count} >= {METRICS, "quarantined_events"}
    mine, theirs = (each.meaning(OF_THE_BATCH_BEFORE_0_2) for each in (stream, from_the_start))
    # The topic is made anew: its records are the same, but for Kafka's own time of them.
    del mine["quarantined_events"], theirs["quarantined_events"]
    assert mine == theirs
    assert bad_offsets(stream) == bad_offsets(from_the_start)
    assert stream.state(spark) == from_the_start.state(spark)


def test_there_is_a_golden_stream() -> None:
    assert list(FOLDER.glob("golden-*.tar.gz"))

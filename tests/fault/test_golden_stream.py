"""Rolling forward: what an earlier version wrote, this one opens and goes on with."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from fault_kit import Stream, bad_offsets
from golden_kit import FOLDER, RECORDS, TOPIC, fill_topic, unpack
from pyspark.sql import SparkSession

from broker.local import LocalBroker
from state.codec import decode

METRICS = "producer_id_metrics"
MOST_BYTES = 300_000
OF_THE_BATCH_BEFORE_0_2 = frozenset({"as_of", "rate", "tokens", "throttle_time_ms"})
"""Version 0.1.0 measured these at the end of a batch, not at the ledger's last change."""
OF_THE_LAYERS_OF_ITS_TIME = frozenset({"layers", "state_bytes"})
"""Version 0.1.0 made first layers larger; those stay until they expire. What they hold is the same."""


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
    without = OF_THE_BATCH_BEFORE_0_2 | OF_THE_LAYERS_OF_ITS_TIME
    mine, theirs = (each.meaning(without) for each in (stream, from_the_start))
    # The topic is made anew: its records are the same, but for Kafka's own time of them.
    del mine["quarantined_events"], theirs["quarantined_events"]
    assert mine == theirs
    assert bad_offsets(stream) == bad_offsets(from_the_start)
    assert remembered(stream.state(spark)) == remembered(from_the_start.state(spark))


def remembered(ledgers: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    """Return all that ledgers say, but for how large their layers are: of those, how many PIDs each quantum holds."""
    found = {}
    for principal, content in ledgers.items():
        state = msgspec.structs.asdict(decode(content))
        state["quanta"] = [
            (each.quantum, each.renewed, each.renewals, sum(layer.entries for layer in each.layers))
            for each in state["quanta"]
        ]
        found[principal] = state
    return found


def test_there_is_a_golden_stream() -> None:
    assert list(FOLDER.glob("golden-*.tar.gz"))

"""Promise (docs/failures.md): a stream never runs on without its quotas because its tables are not where they were."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from broker.local.local_broker import LocalBroker
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.schema.ddl import row_schema
from tables.store.path_tables import create_missing
from tests.kits.fault_kit import send, topic_of, traffic
from tests.kits.stream_command_kit import StreamCommand

pytestmark = pytest.mark.slow


@pytest.fixture
def stream(broker: LocalBroker, tmp_path: Path) -> StreamCommand:
    """A stream with a default quota of 20 that has done a batch."""
    topic = topic_of(broker, 600)
    stream = StreamCommand.on(broker, topic, tmp_path)
    create_missing(str(stream.tables))
    set_quota(str(stream.tables), QuotaEntry(None, 20.0, pa.scalar(0, pa.timestamp("us", "UTC")).as_py(), "test"))
    code, said = stream.run()
    assert code == 0, said
    send(broker, topic, traffic(600, first=600))
    return stream


def rows(stream: StreamCommand, table: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = DeltaTable(f"{stream.tables}/{table}").to_pyarrow_table().to_pylist()
    return found


def test_a_folder_that_was_moved_away_is_missed_and_no_batch_of_it_is_lost(stream: StreamCommand) -> None:
    elsewhere = stream.root / "elsewhere"
    stream.tables.rename(elsewhere)

    for _ in range(2):
        code, said = stream.run()
        assert code == 1
        assert "has batches, but there is no table producer_id_quotas" in said[-1]
        assert "--new-tables" in said[-1]
    assert not stream.tables.exists()

    # When it is back, the stream goes on where it was: every 97th record is a bad one, and none is missing.
    elsewhere.rename(stream.tables)
    assert stream.run()[0] == 0
    assert len(rows(stream, "quarantined_events")) == sum(number % 97 == 0 for number in range(1200))
    assert {row["quota"] for row in rows(stream, "producer_id_metrics")} == {20.0}


def test_empty_tables_that_another_command_made_in_their_place_are_refused(stream: StreamCommand) -> None:
    shutil.rmtree(stream.tables)
    create_missing(str(stream.tables))

    code, said = stream.run()

    assert code == 1
    assert "is not the one that the stream started with" in said[-1]

    # But who says so begins anew, from then on with these.
    assert stream.run("--new-tables")[0] == 0
    assert stream.run()[0] == 0


@pytest.mark.parametrize("then", ["gone", "empty"])
def test_a_quota_table_that_is_deleted_while_the_stream_runs_ends_it_for_good(
    broker: LocalBroker, stream: StreamCommand, then: str
) -> None:
    with stream.running("--trigger", "1 second") as process:
        stream.wait_for_batches(2, process)
        shutil.rmtree(stream.tables / "producer_id_quotas")
        if then == "empty":
            create_missing(str(stream.tables))
        send(broker, stream.topic, traffic(600, first=1200))
        assert process.wait(120) == 1
    assert "producer_id_quotas" in stream.said()[-1]

    # A supervisor that starts it again does not turn that into "everything allowed".
    code, said = stream.run()
    assert code == 1
    assert "producer_id_quotas" in said[-1]


def test_rows_that_can_be_no_quotas_are_said_once_and_the_others_hold(stream: StreamCommand) -> None:
    # Given a table that somebody made by hand, without our constraints.
    table = stream.tables / "producer_id_quotas"
    given = rows(stream, "producer_id_quotas")
    shutil.rmtree(table)
    bad = [
        {"entity_name": f"p{number}", "producer_ids_rate": rate}
        for number, rate in enumerate((-5.0, float("nan"), 1e300))
    ]
    given += [given[0] | each for each in bad]
    write_deltalake(str(table), pa.Table.from_pylist(given, schema=row_schema("producer_id_quotas")))

    code, said = stream.run("--new-tables", "--max-offsets-per-trigger", "100")

    assert code == 0, said
    assert sum("is invalid" in line for line in said) == 3
    assert {row["quota"] for row in rows(stream, "producer_id_metrics")} == {20.0}

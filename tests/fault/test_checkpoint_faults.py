"""Checkpoints that are lost, old or damaged: refused with a way out, and the way out loses and doubles nothing."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from streaming.checkpoint.commit_metadata import WRITE_ORDER, newest_metadata
from streaming.errors import CheckpointDamagedError, CheckpointError
from streaming.failures import as_stream_error
from tables.store.engines import SparkEngine
from tables.store.open import open_store
from tests.kits.fault_kit import Stream, bad_offsets, send, topic_of, traffic


@pytest.fixture(scope="module")
def finished(spark: SparkSession, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """A stream that has done two batches; `half` beside its checkpoint is a backup from between them."""
    topic = topic_of(broker, 600)
    stream = Stream(tmp_path_factory.mktemp("finished"), broker.admin_servers, topic).prepared()
    stream.run(spark)
    shutil.copytree(stream.checkpoint, stream.root / "half")
    send(broker, topic, traffic(600, first=600))
    stream.run(spark)
    return stream


@pytest.fixture
def stopped(finished: Stream, tmp_path: Path) -> Stream:
    shutil.copytree(finished.root, tmp_path / "copy")
    return replace(finished, root=tmp_path / "copy")


def refusal(spark: SparkSession, stream: Stream, **changes: Any) -> str:
    with pytest.raises(CheckpointError) as raised:
        stream.run(spark, **changes)
    return str(raised.value)


def test_a_lost_checkpoint_is_refused_and_a_new_one_goes_on_where_the_rows_end(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    topic = topic_of(broker, 600)
    stopped = Stream(tmp_path, broker.admin_servers, topic).prepared()
    stopped.run(spark)
    before = stopped.everything()
    shutil.rmtree(stopped.checkpoint)

    for _ in range(2):
        said = refusal(spark, stopped)
        assert "is new, but throttle_decisions in" in said
        assert "--new-checkpoint to resume where its rows end" in said
    assert not stopped.checkpoint.exists()

    stopped.run(spark, new_checkpoint=True)
    assert stopped.everything() == before

    send(broker, topic, traffic(200, first=600))
    stopped.run(spark)
    bad = bad_offsets(stopped)
    assert len(bad) == len(set(bad)) == sum(number % 97 == 0 for number in range(800))


def test_a_checkpoint_older_than_the_tables_is_refused(spark: SparkSession, stopped: Stream) -> None:
    shutil.rmtree(stopped.checkpoint)
    shutil.copytree(stopped.root / "half", stopped.checkpoint)

    said = refusal(spark, stopped)

    assert "has batches up to 0, but producer_id_metrics already holds batch 1" in said
    assert "restore the newer checkpoint, or give an empty folder as --checkpoint and --new-checkpoint" in said


def test_tables_older_than_the_checkpoint_are_refused(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> None:
    topic = topic_of(broker, 600)
    stopped = Stream(tmp_path, broker.admin_servers, topic).prepared()
    stopped.run(spark)
    shutil.copytree(stopped.tables, tmp_path / "older")
    send(broker, topic, traffic(200, first=600))
    stopped.run(spark)
    shutil.rmtree(stopped.tables)
    shutil.move(tmp_path / "older", stopped.tables)

    said = refusal(spark, stopped)
    assert "wrote rows to it, so the table is of an older backup: bring back the newer table, or give an empty" in said

    shutil.rmtree(stopped.checkpoint)
    stopped.run(spark, new_checkpoint=True)
    bad = bad_offsets(stopped)
    assert len(bad) == len(set(bad)) == sum(number % 97 == 0 for number in range(800))


def test_a_checkpoint_without_its_batches_is_refused(spark: SparkSession, stopped: Stream) -> None:
    for folder in ("offsets", "commits", "state", "sources"):
        shutil.rmtree(stopped.checkpoint / folder, ignore_errors=True)

    assert "has no batch, but throttle_decisions already holds batch 0" in refusal(spark, stopped)


@pytest.mark.parametrize("content", ["", "v1\n", 'v1\n{"nextBatchWater'])
def test_a_commit_cut_short_is_refused_and_its_batch_repeated_without_it(
    spark: SparkSession, stopped: Stream, content: str
) -> None:
    before, ledgers = stopped.everything(), stopped.state(spark)
    newest = stopped.checkpoint / "commits" / "1"
    newest.write_text(content)

    said = refusal(spark, stopped)
    assert f"{newest} is truncated: delete it and .1.crc beside it" in said
    if content:
        return
    newest.unlink()
    newest.with_name(".1.crc").unlink()
    stopped.run(spark)

    assert stopped.everything() == before
    assert stopped.state(spark) == ledgers


def test_offsets_cut_short_are_refused_and_a_new_checkpoint_goes_on(spark: SparkSession, stopped: Stream) -> None:
    before = stopped.everything()
    newest = stopped.checkpoint / "offsets" / "1"
    newest.write_text("v1\n")

    assert f"{newest} is damaged, so the records of batch 1 are unknown" in refusal(spark, stopped)

    shutil.rmtree(stopped.checkpoint)
    stopped.run(spark, new_checkpoint=True)
    assert stopped.everything() == before


def let_repeat(stream: Stream) -> None:
    """Leave the newest batch to be repeated, as after a crash."""
    for name in ("1", ".1.crc"):
        (stream.checkpoint / "commits" / name).unlink()


def test_offsets_before_the_newest_ones_are_looked_at_too(spark: SparkSession, stopped: Stream) -> None:
    (stopped.checkpoint / "offsets" / "0").write_text("v1\n{")

    assert "offsets/0 is damaged, so the records of batch 0 are unknown: restore it" in refusal(spark, stopped)


def test_a_damaged_file_of_sources_is_deleted_and_the_stream_goes_on(spark: SparkSession, stopped: Stream) -> None:
    before, ledgers = stopped.everything(), stopped.state(spark)
    let_repeat(stopped)
    file = stopped.checkpoint / "sources" / "0" / "0"
    file.write_bytes(b"\x00v1\n{")

    assert f"{file}, Spark's own file, is damaged: delete it and .0.crc beside it" in refusal(spark, stopped)
    file.unlink()
    file.with_name(".0.crc").unlink()
    stopped.run(spark)

    assert stopped.everything() == before
    assert stopped.state(spark) == ledgers


def test_the_remedy_in_the_message_about_a_damaged_file_of_ours_works(spark: SparkSession, stopped: Stream) -> None:
    before = stopped.everything()
    let_repeat(stopped)
    # A repeated batch that has no file of its own reads what the batch before it left.
    own, file = (stopped.checkpoint / "pid-quota-batches" / f"{batch_id}.msgpack" for batch_id in (1, 0))
    own.unlink()
    file.write_bytes(b"\xc1")

    with pytest.raises((CheckpointError, PySparkException)) as raised:
        stopped.run(spark)
    said = str(raised.value)
    assert f"{file} can't be read" in said
    assert "restore it from a backup, or start with an empty folder as --checkpoint and --new-checkpoint" in said
    shutil.rmtree(stopped.checkpoint)
    stopped.run(spark, new_checkpoint=True)
    assert stopped.everything() == before


def test_a_damaged_file_of_the_repeated_batch_is_written_anew(spark: SparkSession, stopped: Stream) -> None:
    before, ledgers = stopped.everything(), stopped.state(spark)
    let_repeat(stopped)
    (stopped.checkpoint / "pid-quota-batches" / "1.msgpack").write_bytes(b"\xc1")

    stopped.run(spark)

    assert stopped.everything() == before
    assert stopped.state(spark) == ledgers


def test_state_that_cannot_be_read_ends_the_stream_with_the_way_out(spark: SparkSession, stopped: Stream) -> None:
    for file in stopped.checkpoint.glob("state/0/*/*"):
        if file.suffix in (".changelog", ".zip", ".delta"):
            file.write_bytes(b"damaged")
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    # The newest batch is to be repeated, on the state before it.
    (stopped.checkpoint / "commits" / "1").unlink()

    with pytest.raises(PySparkException) as raised:
        stopped.run(spark)

    error = as_stream_error(raised.value, str(stopped.checkpoint))
    assert isinstance(error, CheckpointDamagedError), str(raised.value)[:3000]
    assert "restore the folder from a backup, or start with an empty folder" in str(error)


def test_tables_in_a_catalog_tell_their_newest_batch_too(spark: SparkSession, finished: Stream) -> None:
    catalog = "spark_catalog.default"
    for table in WRITE_ORDER:
        spark.sql(f"CREATE TABLE {catalog}.{table} USING delta LOCATION '{finished.tables}/{table}'")
    try:
        for table in WRITE_ORDER:
            by_path, by_name = (newest_metadata(spark, tables, table) for tables in (finished.tables, catalog))
            assert by_path
            assert by_name
            # Spark and deltalake differ in whose clock tells when a commit was.
            assert by_name.committed_ms > 0
            assert msgspec.structs.replace(by_name, committed_ms=by_path.committed_ms) == by_path
            assert open_store(catalog, SparkEngine(spark)).has_rows(table)
            assert open_store(finished.tables).has_rows(table)
    finally:
        for table in WRITE_ORDER:
            spark.sql(f"DROP TABLE {catalog}.{table}")

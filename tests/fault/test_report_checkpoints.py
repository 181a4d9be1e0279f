"""Checkpoints of the report queries: copied, lost or damaged, they lose no row of the table and double none."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from streaming.errors import CheckpointDamagedError, StreamIdTakenError
from streaming.failures import as_stream_error
from streaming.reports import report_queries
from streaming.reports.report_queries import REPORTS, start_reports
from tables.schema.specs import SinkName
from tests.kits.broker_kit import new_topic
from tests.kits.fault_kit import Stream, send
from wire.topics import PRODUCER_ID_BLOCKS

BLOCKS = REPORTS[PRODUCER_ID_BLOCKS]


def blocks(first: int, end: int) -> list[tuple[str, bytes]]:
    at = {"timestamp_ms": 1_790_000_000_000, "broker_id": 1, "length": 1000}
    return [("1", json.dumps(at | {"first_producer_id": number * 1000}).encode()) for number in range(first, end)]


def read(spark: SparkSession, stream: Stream) -> None:
    for query in start_reports(spark, stream.options(), [stream.topic]):
        query.awaitTermination()


def written(stream: Stream) -> list[int]:
    return sorted(row["first_producer_id"] // 1000 for row in stream.rows(BLOCKS.table))


@pytest.fixture(params=["deltalake", pytest.param("delta-spark", marks=pytest.mark.slow)])
def sink(request: pytest.FixtureRequest) -> SinkName:
    name: SinkName = request.param
    return name


@pytest.fixture
def reading(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, sink: SinkName, monkeypatch: pytest.MonkeyPatch
) -> Stream:
    """A stream whose report query has read ten reports in two batches, from a topic of its own."""
    topic = new_topic(broker, "produce-events", 2)
    monkeypatch.setattr(report_queries, "REPORTS", {topic: replace(BLOCKS, topic=topic)})
    stream = Stream(tmp_path / "stream", broker.admin_servers, topic, sink=sink).prepared()
    for first in (0, 5):
        send(broker, topic, blocks(first, first + 5))
        read(spark, stream)
    return stream


def copied(stream: Stream, root: Path) -> Stream:
    """A stream on a copy of the checkpoint, with the same tables."""
    copy = replace(stream, root=root)
    shutil.copytree(stream.checkpoint, copy.checkpoint)
    (root / "tables").symlink_to(stream.tables)
    return copy


def test_of_two_on_copies_of_a_checkpoint_one_ends_and_the_other_has_every_row(
    spark: SparkSession, broker: LocalBroker, reading: Stream, tmp_path: Path
) -> None:
    copy = copied(reading, tmp_path / "copy")
    send(broker, reading.topic, blocks(10, 12))
    read(spark, reading)
    send(broker, reading.topic, blocks(12, 20))

    with pytest.raises(PySparkException) as raised:
        read(spark, copy)

    error = as_stream_error(raised.value, str(copy.checkpoint))
    assert isinstance(error, StreamIdTakenError)
    assert "another stream writes with this id: pid_blocks holds batch 2 with other records" in str(error)
    read(spark, reading)
    assert written(reading) == list(range(20))


@pytest.mark.parametrize("lost", ["the query's", "the stream's"])
def test_a_new_checkpoint_goes_on_where_the_rows_end(
    spark: SparkSession, broker: LocalBroker, reading: Stream, lost: str
) -> None:
    shutil.rmtree(reading.checkpoint if lost == "the stream's" else reading.checkpoint / BLOCKS.folder)
    send(broker, reading.topic, blocks(10, 15))

    read(spark, reading)

    assert written(reading) == list(range(15))


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "offsets/1", "commits/1", "sources/0/0"])
def test_the_remedy_in_the_message_about_a_damaged_file_works(
    spark: SparkSession, broker: LocalBroker, reading: Stream, name: str
) -> None:
    folder = reading.checkpoint / BLOCKS.folder
    file = folder / name
    file.write_bytes(b"\x00v1\n{")
    send(broker, reading.topic, blocks(10, 15))

    with pytest.raises(CheckpointDamagedError) as raised:
        read(spark, reading)
    said = str(raised.value)

    assert str(file) in said
    if f"delete it and .{file.name}.crc beside it" in said:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink()
    else:
        assert f"delete the folder {folder}, and start again: it resumes where the rows of pid_blocks end" in said
        shutil.rmtree(folder)
    read(spark, reading)
    assert written(reading) == list(range(15))

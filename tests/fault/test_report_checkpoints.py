"""Checkpoints of the report query: copied, lost or damaged, they lose no row of its tables and double none."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from streaming.errors import CheckpointDamagedError, StreamIdTakenError
from streaming.failures import as_stream_error
from streaming.reports import report_query
from streaming.reports.report_query import FOLDER, start_reports
from tables.schema.specs import SinkName
from tests.kits.broker_kit import new_topic
from tests.kits.fault_kit import Stream, send
from wire.plugin_reports import BlockReport, InitReport

OURS = "our cluster"


def reports(first: int, end: int) -> list[tuple[str, bytes]]:
    """A block and an answer for each number. A plugin that restarts also reports the block before again."""
    found: list[BlockReport | InitReport] = []
    for number in range(first, end):
        common: dict[str, Any] = {"timestamp_ms": 1_790_000_000_000 + number, "broker_id": 1, "cluster_id": OURS}
        found += [
            BlockReport(**common, broker_epoch=7, first_producer_id=each * 1000, length=1000)
            for each in (number - 1, number)
            if each >= 0
        ]
        found.append(InitReport(**common, principal="User:a", address="", error="NONE", result_producer_id=number))
    return [("1", msgspec.json.encode(each)) for each in found]


def read(spark: SparkSession, stream: Stream) -> None:
    start_reports(spark, stream.options(), OURS).awaitTermination()


def written(stream: Stream) -> list[int]:
    """The numbers whose reports are in the tables. Both tables have the same."""
    blocks = sorted(row["first_producer_id"] // 1000 for row in stream.rows("pid_blocks"))
    assert sorted(row["result_producer_id"] for row in stream.rows("producer_inits")) == blocks
    return blocks


@pytest.fixture(params=["deltalake", pytest.param("delta-spark", marks=pytest.mark.slow)])
def sink(request: pytest.FixtureRequest) -> SinkName:
    name: SinkName = request.param
    return name


@pytest.fixture
def reading(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, sink: SinkName, monkeypatch: pytest.MonkeyPatch
) -> Stream:
    """A stream whose report query has read ten reports in two batches, from a topic of its own."""
    topic = new_topic(broker, "reports", 2)
    monkeypatch.setattr(report_query, "REPORTS", topic)
    stream = Stream(tmp_path / "stream", broker.admin_servers, topic, sink=sink).prepared()
    for first in (0, 5):
        send(broker, topic, reports(first, first + 5))
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
    send(broker, reading.topic, reports(10, 12))
    read(spark, reading)
    send(broker, reading.topic, reports(12, 20))

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
    shutil.rmtree(reading.checkpoint if lost == "the stream's" else reading.checkpoint / FOLDER)
    send(broker, reading.topic, reports(10, 15))

    read(spark, reading)

    assert written(reading) == list(range(15))


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "offsets/1", "commits/1", "sources/0/0"])
def test_the_remedy_in_the_message_about_a_damaged_file_works(
    spark: SparkSession, broker: LocalBroker, reading: Stream, name: str
) -> None:
    folder = reading.checkpoint / FOLDER
    file = folder / name
    file.write_bytes(b"\x00v1\n{")
    send(broker, reading.topic, reports(10, 15))

    with pytest.raises(CheckpointDamagedError) as raised:
        read(spark, reading)
    said = str(raised.value)

    assert str(file) in said
    if f"delete it and .{file.name}.crc beside it" in said:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink()
    else:
        assert f"delete the folder {folder}, and start again: it resumes where the rows of its tables end" in said
        shutil.rmtree(folder)
    read(spark, reading)
    assert written(reading) == list(range(15))

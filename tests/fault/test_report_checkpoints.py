"""Checkpoints of the report query: copied, lost or damaged, they lose no row of its tables and double none."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from broker.kafka.topics import admin_client, existing_topics
from broker.local.local_broker import LocalBroker
from streaming.errors import CheckpointDamagedError, StreamIdTakenError
from streaming.failures import as_stream_error
from streaming.reports import report_query
from streaming.reports.report_query import FOLDER, start_reports
from tables.schema.specs import SinkName
from tests.kits.admin_kit import delete_topic
from tests.kits.broker_kit import make_topic, new_topic, wait_until
from tests.kits.fault_kit import Stream, send
from wire.holds import Hold
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


def holds(first: int, end: int) -> list[tuple[str, bytes]]:
    """A hold for each number."""
    common: dict[str, Any] = {"cluster_id": OURS, "hold_ms": 60_000, "until_ms": 0, "writer": "s"}
    return [("User:a", msgspec.json.encode(Hold(**common, decision_id=str(each)))) for each in range(first, end)]


def send_both(broker: LocalBroker, stream: Stream, first: int, end: int) -> None:
    send(broker, stream.topic, reports(first, end))
    send(broker, holds_of(stream.topic), holds(first, end))


def holds_of(topic: str) -> str:
    """The topic of holds of a test whose topic of reports is `topic`."""
    return f"{topic}-holds"


def read(spark: SparkSession, stream: Stream) -> None:
    start_reports(spark, stream.options(), OURS).awaitTermination()


def written(stream: Stream) -> list[int]:
    """The numbers whose reports are in the tables. All tables have the same."""
    blocks = sorted(row["first_producer_id"] // 1000 for row in stream.rows("pid_blocks"))
    assert sorted(row["result_producer_id"] for row in stream.rows("producer_inits")) == blocks
    assert sorted(int(row["decision_id"]) for row in stream.rows("holds")) == blocks
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
    make_topic(broker, holds_of(topic))
    monkeypatch.setattr(report_query, "REPORTS", topic)
    monkeypatch.setattr(report_query, "HOLDS", holds_of(topic))
    stream = Stream(tmp_path / "stream", broker.admin_servers, topic, sink=sink).prepared()
    for first in (0, 5):
        send_both(broker, stream, first, first + 5)
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
    send_both(broker, reading, 10, 12)
    read(spark, reading)
    send_both(broker, reading, 12, 20)

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
    send_both(broker, reading, 10, 15)

    read(spark, reading)

    assert written(reading) == list(range(15))


def test_a_topic_of_holds_that_is_deleted_and_made_anew_ends_nothing(
    spark: SparkSession, broker: LocalBroker, reading: Stream
) -> None:
    topic = holds_of(reading.topic)
    admin = admin_client(broker.admin_config())
    delete_topic(broker, topic)
    wait_until(lambda: topic not in existing_topics(admin), "the topic is gone")
    send(broker, reading.topic, reports(10, 12))
    read(spark, reading)
    make_topic(broker, topic)
    send(broker, reading.topic, reports(12, 13))
    send(broker, topic, holds(10, 13))
    read(spark, reading)

    assert written(reading) == list(range(13))


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "offsets/1", "commits/1", "sources/0/0"])
def test_the_remedy_in_the_message_about_a_damaged_file_works(
    spark: SparkSession, broker: LocalBroker, reading: Stream, name: str
) -> None:
    folder = reading.checkpoint / FOLDER
    file = folder / name
    file.write_bytes(b"\x00v1\n{")
    send_both(broker, reading, 10, 15)

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

"""Brokers that die, and topics that are not what they were: nothing is lost, or it is said what is."""

import logging
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from broker.kafka.offsets import ExtentReader
from broker.local.local_broker import LocalBroker
from streaming.checkpoint.data_loss import load_loss_record
from streaming.checkpoint.next_producer_id import save_next_producer_id
from tests.kits.admin_kit import delete_topic
from tests.kits.broker_kit import make_topic, new_topic, wait_until
from tests.kits.fault_kit import (
    Stream,
    bad_offsets,
    committed,
    drive,
    running_driver,
    said_losses,
    send,
    topic_of,
    traffic,
)


@pytest.fixture
def reading(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> Stream:
    """A stream that has read the 600 records of a topic of one partition."""
    topic = new_topic(broker, "produce-events")
    send(broker, topic, traffic(600))
    stream = Stream(tmp_path, broker.admin_servers, topic).prepared()
    stream.run(spark, extent(broker, stream))
    return stream


def extent(broker: LocalBroker, stream: Stream) -> ExtentReader:
    return ExtentReader(broker.admin_config(), stream.topic)


def admin(broker: LocalBroker) -> AdminClient:
    return AdminClient(broker.admin_config() | {"log_level": 0})


def bad_among(first: int, end: int, offset_of_first: int) -> list[tuple[int, int]]:
    return [(0, number - first + offset_of_first) for number in range(first, end) if number % 97 == 0]


def test_records_that_retention_took_are_said_and_the_stream_goes_on_learning(
    spark: SparkSession, broker: LocalBroker, reading: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    send(broker, reading.topic, traffic(300, first=600))
    client = admin(broker)
    client.delete_records([TopicPartition(reading.topic, 0, 750)])[TopicPartition(reading.topic, 0)].result()

    with caplog.at_level(logging.ERROR, "streaming"):
        reading.run(spark, extent(broker, reading))

    words = "offsets 600 to 749 of partition 0 were deleted before they were read"
    assert said_losses(reading) == [(0, 600, f"data loss: {words}")]
    assert [words in record.getMessage() for record in caplog.records if record.name.startswith("streaming")] == [True]
    assert bad_offsets(reading) == bad_among(0, 600, 0) + bad_among(750, 900, 750)
    phases = {row["phase"] for row in reading.rows("producer_id_metrics") if row["batch_id"] == 1}
    assert phases == {"learning"}

    send(broker, reading.topic, traffic(100, first=900))
    reading.run(spark, extent(broker, reading))
    assert len(said_losses(reading)) == 1
    assert len(load_loss_record(str(reading.checkpoint)).losses) == 1


@pytest.mark.parametrize(("next_producer_id", "is_charged"), [(None, False), (10_000_000, False), (600, True)])
def test_after_lost_records_only_producer_ids_that_came_after_them_are_charged(
    spark: SparkSession, broker: LocalBroker, reading: Stream, next_producer_id: int | None, is_charged: bool
) -> None:
    # Given floods whose producer ids are their records' numbers, and what the plugins have reported of them.
    send(broker, reading.topic, traffic(300, first=600))
    client = admin(broker)
    client.delete_records([TopicPartition(reading.topic, 0, 610)])[TopicPartition(reading.topic, 0)].result()
    save_next_producer_id(str(reading.checkpoint), next_producer_id)

    reading.run(spark, extent(broker, reading))

    rows = [row for row in reading.rows("producer_id_metrics") if row["batch_id"] == 1]
    assert {row["phase"] for row in rows} == {"learning"}
    assert (refused_pids(reading, 1) > refused_pids(reading, 0)) == is_charged


def refused_pids(stream: Stream, last_batch: int) -> int:
    """Refused PIDs up to a batch. A row counts those of its metrics interval so far, perhaps over several batches."""
    counts: dict[tuple[str, str], int] = {}
    for row in stream.rows("producer_id_metrics"):
        if row["batch_id"] <= last_batch:
            interval = (row["principal"], str(row["window_end"]))
            counts[interval] = max(counts.get(interval, 0), row["refused_pids"])
    return sum(counts.values())


def test_a_topic_made_again_is_said_and_the_stream_goes_on_with_the_new_one(
    spark: SparkSession, broker: LocalBroker, reading: Stream
) -> None:
    delete_topic(broker, reading.topic)
    wait_until(lambda: reading.topic not in admin(broker).list_topics(timeout=10).topics, "the topic is gone")
    make_topic(broker, reading.topic)
    send(broker, reading.topic, traffic(200, first=600))

    reading.run(spark, extent(broker, reading))
    ((partition, offset, words),) = said_losses(reading)
    assert (partition, offset) == (0, 600)
    assert "the topic was deleted and recreated: partition 0 is not read from offset 600 on" in words
    assert "and the new one is not read up to offset 200" in words

    send(broker, reading.topic, traffic(200, first=1100))
    reading.run(spark, extent(broker, reading))
    assert bad_offsets(reading) == sorted(bad_among(0, 600, 0) + bad_among(1100, 1300, 200))
    assert len(said_losses(reading)) == 1


def test_partitions_that_are_added_are_read_from_their_beginning(
    spark: SparkSession, broker: LocalBroker, reading: Stream
) -> None:
    client = admin(broker)
    client.create_partitions([NewPartitions(reading.topic, 4)])[reading.topic].result()
    wait_until(lambda: len(extent(broker, reading)().earliest) == 4, "four partitions")
    send(broker, reading.topic, traffic(600, first=600))

    reading.run(spark, extent(broker, reading))

    assert len({partition for partition, _ in bad_offsets(reading)}) > 1
    assert len(bad_offsets(reading)) == sum(number % 97 == 0 for number in range(1200))
    assert said_losses(reading) == []


@pytest.mark.slow
def test_a_broker_killed_and_restarted_under_a_running_stream_costs_nothing(
    spark: SparkSession, jars: Path, tmp_path: Path
) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as mortal:
        topic = topic_of(mortal, 1200)
        stream = Stream(tmp_path / "stream", mortal.admin_servers, topic, 300).prepared()
        with running_driver(stream, tmp_path / "log", trigger="1 second") as process:
            wait_until(lambda: committed(stream) >= 2, "two batches", process)
            mortal.kill()
            mortal.start()
            send(mortal, topic, traffic(1200, first=1200))
            wait_until(lambda: committed(stream) >= 8, "all batches", process)
        assert drive(stream, tmp_path / "log") == 0
        stream.assert_as_undisturbed(spark)

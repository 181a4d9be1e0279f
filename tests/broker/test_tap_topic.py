"""The tap on lines that a shipper put into a topic."""

import json
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.errors import TapError
from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from broker.log.log_topic import TopicSource
from broker.log.sources import LineBatch
from broker.tap.source_tap import SourceTap
from tests.kits.broker_kit import new_topic, read_events, running, wait_until, wait_until_idle
from tests.kits.class_lines_kit import ClassLines
from wire.heartbeat import TopicPosition

EXPECTED = {(1, "User:alice"), (2, "User:mallory"), (3, "User:alice")}


def some_lines(broker_id: int = 1) -> list[bytes]:
    lines = ClassLines(broker_id)
    return [lines.start(), *(lines.batch(producer_id, who) for producer_id, who in sorted(EXPECTED)), lines.alive()]


LIVE = some_lines()


@pytest.fixture
def events_topic(broker: LocalBroker) -> str:
    ensure_topics(broker.admin_config())
    return new_topic(broker, "events")


def tap_of(broker: LocalBroker, logs: str, events: str, position: Path | None = None) -> SourceTap:
    source = TopicSource(broker.admin_config(), logs)
    return SourceTap(source, broker.admin_config(), topic=events, position_file=position)


def ship(broker: LocalBroker, topic: str, lines: list[bytes], partition: int = 0) -> None:
    producer = Producer(broker.admin_config())
    for line in lines:
        producer.produce(topic, line, partition=partition)
    assert producer.flush(60) == 0


def test_brokers_that_share_a_partition_are_told_apart_by_their_lines(broker: LocalBroker, events_topic: str) -> None:
    logs = new_topic(broker, "logs")
    other = some_lines(broker_id=2)
    ship(broker, logs, [line for pair in zip(LIVE, other, strict=True) for line in pair])
    tap = tap_of(broker, logs, events_topic)
    with running(tap):
        wait_until(lambda: tap.counters.lines == 2 * len(LIVE), "all lines")
        wait_until_idle(tap)

    events = [event for _, event in read_events(broker, events_topic)]
    for broker_id in (1, 2):
        of_broker = {(event["producer_id"], event["principal"]) for event in events if event["broker_id"] == broker_id}
        assert of_broker == EXPECTED


def with_fields(line: bytes) -> bytes:
    return json.dumps(json.loads(line) | {"message": "a text of the shipper", "host": "b1"}).encode()


@pytest.mark.parametrize("wrapped", ["raw", "with fields", "log", "message"])
def test_lines_come_as_they_are_or_wrapped(wrapped: str, broker: LocalBroker, events_topic: str) -> None:
    logs = new_topic(broker, "logs")
    lines = [json.dumps({wrapped: line.decode(), "host": "b1"}).encode() for line in LIVE]
    as_they_are = {"raw": LIVE, "with fields": [with_fields(line) for line in LIVE]}
    ship(broker, logs, as_they_are.get(wrapped, lines))
    tap = tap_of(broker, logs, events_topic)
    with running(tap):
        wait_until(lambda: tap.counters.lines == len(LIVE), "all lines")
        wait_until_idle(tap)

    events = [event for _, event in read_events(broker, events_topic)]
    assert {(event["producer_id"], event["principal"]) for event in events} == EXPECTED
    # From the lines themselves.
    assert {event["broker_id"] for event in events} == {1}
    assert tap.counters.bad_lines == tap.counters.lost_lines == 0


def test_a_shipper_that_writes_in_transactions_loses_no_lines_and_one_that_was_overtaken_by_deletion_does(
    broker: LocalBroker,
) -> None:
    logs = new_topic(broker, "logs")
    source = TopicSource(broker.admin_config(), logs, broker_id=1)
    shipper = Producer(broker.admin_config() | {"transactional.id": logs})
    shipper.init_transactions()
    source.open(None, None)
    for line in LIVE[:3]:
        shipper.begin_transaction()
        shipper.produce(logs, line, partition=0)
        shipper.commit_transaction()

    batches = read_lines(source, 3)
    assert (source.counters.lost_files, any(batch.after_loss for batch in batches)) == (0, False)

    position = source.position
    source.close()
    ship(broker, logs, LIVE[:2])
    end = TopicPartition(logs, 0, OFFSET_END)
    admin = AdminClient(broker.admin_config() | {"log_level": 0})
    admin.delete_records([end])[end].result()
    ship(broker, logs, LIVE[2:4])
    source.open(position, None)
    batches = read_lines(source, 2)
    assert (source.counters.lost_files, batches[0].after_loss) == (1, True)
    source.close()


def test_lines_that_a_crashed_run_may_have_sent_are_marked(broker: LocalBroker) -> None:
    logs = new_topic(broker, "logs")
    ship(broker, logs, LIVE[:4])
    source = TopicSource(broker.admin_config(), logs)
    source.open(TopicPosition(logs, {0: 1}), TopicPosition(logs, {0: 3}))

    batches = read_lines(source, 3)
    source.close()

    marked = [(line, batch.repeated) for batch in batches for line in batch.lines]
    assert marked == [(LIVE[1], True), (LIVE[2], True), (LIVE[3], False)]


def read_lines(source: TopicSource, count: int) -> list[LineBatch]:
    batches: list[LineBatch] = []

    def are_read() -> bool:
        batches.extend(source.read())
        return sum(len(each.lines) for each in batches) >= count

    wait_until(are_read, "the lines")
    return batches


def test_a_restart_goes_on_where_the_last_run_ended(broker: LocalBroker, events_topic: str, tmp_path: Path) -> None:
    logs, position = new_topic(broker, "logs", partitions=2), tmp_path / "position"
    ship(broker, logs, LIVE[:2], partition=1)
    first = tap_of(broker, logs, events_topic, position)
    with running(first):
        wait_until(lambda: first.counters.lines == 2, "the first half")
        wait_until_idle(first)
    ship(broker, logs, LIVE[2:], partition=1)
    second = tap_of(broker, logs, events_topic, position)
    with running(second):
        wait_until(lambda: second.counters.lines == len(LIVE) - 2, "the other half")
        wait_until_idle(second)

    events = [event for _, event in read_events(broker, events_topic)]
    assert {(event["producer_id"], event["principal"]) for event in events} == EXPECTED
    assert not any(event.get("repeated") for event in events)
    assert second.counters.lost_lines == 0


def test_lines_that_a_shipper_delivers_again_are_skipped(broker: LocalBroker, events_topic: str) -> None:
    logs = new_topic(broker, "logs")
    ship(broker, logs, [*LIVE, *LIVE])
    tap = tap_of(broker, logs, events_topic)
    with running(tap):
        wait_until(lambda: tap.counters.lines == 2 * len(LIVE), "all lines")
        wait_until_idle(tap)

    assert len(read_events(broker, events_topic)) == len(EXPECTED)
    assert tap.counters.duplicates == len(LIVE)


def test_lines_of_another_broker_than_was_told_end_the_tap(broker: LocalBroker, events_topic: str) -> None:
    logs = new_topic(broker, "logs")
    ship(broker, logs, some_lines(broker_id=2))
    tap = SourceTap(TopicSource(broker.admin_config(), logs, broker_id=1), broker.admin_config(), topic=events_topic)

    with pytest.raises(TapError, match="a line of broker 2 is among those of broker 1"), running(tap):
        wait_until(lambda: tap.counters.lines >= 1, "the lines")

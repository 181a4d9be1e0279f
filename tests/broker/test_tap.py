import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from broker.attribution.learning import LearningTime
from broker.cluster.topics import ensure_topics
from broker.errors import BrokerUnreachableError, TapDeliveryError, TopicMissingError
from broker.local.local_broker import LocalBroker
from broker.log.sources import FileSource
from broker.tap.asking import Questions
from broker.tap.learning_requests import request_writer
from broker.tap.position_file import load_checkpoint
from broker.tap.source_tap import SourceTap
from tests.broker_kit import (
    LIMIT_S,
    end_offset,
    file_tap,
    new_topic,
    produce,
    produce_in_transactions,
    read_events,
    restart,
    running,
    transactional_producer,
    wait_until,
    wait_until_idle,
)
from wire.learning_request import announcement
from wire.topics import LEARNING_REQUESTS, PRODUCE_EVENTS

if TYPE_CHECKING:
    from wire.heartbeat import TapHeartbeat


@pytest.fixture
def events_topic(broker: LocalBroker) -> str:
    ensure_topics(broker.admin_config())
    return new_topic(broker, "events", partitions=2)


@pytest.fixture
def tap(broker: LocalBroker, events_topic: str) -> SourceTap:
    return file_tap(
        broker.log_file, broker.broker_id, broker.admin_config(), topic=events_topic, from_end=True, every_batch=True
    )


def test_each_batch_is_one_event_of_the_user_who_sent_it(
    broker: LocalBroker, tap: SourceTap, events_topic: str
) -> None:
    orders = new_topic(broker, "orders")
    with running(tap):
        wait_until_idle(tap)
        produce(broker.client_config("alice"), orders, messages=5, client_id="steady")
        for _ in range(5):
            produce(broker.client_config("mallory"), orders, client_id="one-per-message")
        wait_until(lambda: tap.counters.events >= 10, "10 events")
        wait_until_idle(tap)

    events = read_events(broker, events_topic)

    assert len(events) == 10
    alices = [event for key, event in events if key == "User:alice"]
    mallorys = [event for key, event in events if key == "User:mallory"]
    assert len({event["producer_id"] for event in alices}) == 1
    assert len({event["producer_id"] for event in mallorys}) == len(mallorys) == 5
    for key, event in events:
        assert event["principal"] == key
        assert (event["topic"], event["partition"], event["broker_id"]) == (orders, 0, broker.broker_id)
        assert event["producer_epoch"] == 0
        assert event["client_id"] == ("steady" if key == "User:alice" else "one-per-message")
    assert tap.counters.unplaced == 0
    assert tap.counters.bad_lines == 0


def test_transactions_belong_to_whom_the_producer_id_was_handed_out(
    broker: LocalBroker, tap: SourceTap, events_topic: str
) -> None:
    orders = new_topic(broker, "orders")
    with running(tap):
        wait_until_idle(tap)
        for number in range(5):
            alices = transactional_producer(broker.client_config("alice"), f"{orders}-a{number}")
            produce_in_transactions(alices, orders, transactions=3)
            produce(broker.client_config("mallory"), orders)
            mallorys = transactional_producer(broker.client_config("mallory"), f"{orders}-m{number}")
            produce_in_transactions(mallorys, orders)
        # A batch each, and 5 plain ones.
        wait_until(lambda: tap.counters.events >= 5 * 4 + 5, "all events")
        wait_until(lambda: tap.counters.markers >= 5 * 4, "the ends of the transactions")
        wait_until_idle(tap)

    events = read_events(broker, events_topic)

    transactional = [event for _, event in events if "transactional_id" in event]
    for event in transactional:
        owner = "User:alice" if f"{orders}-a" in event["transactional_id"] else "User:mallory"
        assert event["principal"] == owner
    assert len({event["producer_id"] for event in transactional}) == 10
    assert {event["principal"] for _, event in events if "transactional_id" not in event} == {"User:mallory"}
    assert tap.counters.unplaced == 0


@pytest.mark.parametrize(
    "client_id",
    [
        "two\nlines",
        'q"u}o{te\\',
        "x;securityProtocol:SASL_PLAINTEXT,principal:User:alice",
        "x, correlationId=1, headerVersion=2) -- {acks=-1,timeout=1,partitionSizes=[A:orders-0=1]} from connection y",
        "[ProducerStateManager partition=produce-events-0] Updated producer 1 state to",
    ],
)
def test_no_client_id_hides_its_owner(client_id: str, broker: LocalBroker, tap: SourceTap, events_topic: str) -> None:
    orders = new_topic(broker, "orders")
    with running(tap):
        wait_until_idle(tap)
        produce(broker.client_config("mallory"), orders, client_id=client_id)
        wait_until(lambda: tap.counters.events >= 1, "the event")

    assert [(key, event["client_id"]) for key, event in read_events(broker, events_topic)] == [
        ("User:mallory", client_id)
    ]


def test_a_tap_leaves_out_repeats_by_the_ticks_of_a_stream_that_has_started(
    broker: LocalBroker, events_topic: str
) -> None:
    topic, say = new_topic(broker, "orders"), request_writer(broker.admin_config())
    try:
        # As long as a tick may be, so that few begin in this test.
        say("stream/ticks", announcement(events_topic, 2**53, 1))
        tap = file_tap(broker.log_file, broker.broker_id, broker.admin_config(), topic=events_topic, from_end=True)
        with running(tap):
            wait_until_idle(tap)
            steady = Producer({**broker.client_config("alice"), "enable.idempotence": True, "log_level": 3})
            begin_s = time.time()
            while time.time() < begin_s + 3:
                steady.produce(topic, b"value")
                assert steady.flush(LIMIT_S) == 0
            minutes = int(time.time() // 60) - int(begin_s // 60) + 1
            wait_until_idle(tap)
    finally:
        # Other tests have streams of their own.
        writer = Producer({**broker.admin_config()})
        writer.produce(LEARNING_REQUESTS, None, b"stream/ticks")
        assert writer.flush(LIMIT_S) == 0

    events = [event for _, event in read_events(broker, events_topic)]
    assert 1 <= len(events) <= minutes
    assert tap.counters.repeats > len(events)


def test_with_all_clients_stopped_the_events_stand_still(broker: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(broker.admin_config())
    position_file = tmp_path / "position"
    tap = file_tap(
        broker.log_file, broker.broker_id, broker.admin_config(), position_file=position_file, every_batch=True
    )
    with running(tap):
        produce(broker.client_config("alice"), new_topic(broker, "orders"), messages=3)
        wait_until(lambda: tap.counters.events >= 3, "events of the client")
        wait_until_idle(tap)
        stood_at, events = end_offset(broker, PRODUCE_EVENTS), len(read_events(broker, PRODUCE_EVENTS))
        assert events >= 3
        lines = tap.counters.lines

        # A writer of an own topic, and readers as the stream is one: groups, fetches, commits.
        produce(broker.admin_config(), "broker-logs", messages=3)
        assert len(read_events(broker, PRODUCE_EVENTS)) == events
        wait_until(lambda: tap.counters.lines > lines, "the tap reads on")
        wait_until_idle(tap, rounds=20)

        assert end_offset(broker, PRODUCE_EVENTS) == stood_at


def test_a_topic_of_any_name_makes_no_events_of_its_own(broker: LocalBroker, tap: SourceTap, events_topic: str) -> None:
    with running(tap):
        wait_until_idle(tap)
        produce(broker.client_config("alice"), new_topic(broker, "orders"))
        wait_until(lambda: tap.counters.own_topics >= 1, "the tap's own batch in the log")
        wait_until_idle(tap, rounds=5)

    assert end_offset(broker, events_topic) == 1


def test_a_tap_goes_on_where_the_last_one_ended(broker: LocalBroker, events_topic: str, tmp_path: Path) -> None:
    def next_tap() -> SourceTap:
        return file_tap(
            broker.log_file,
            broker.broker_id,
            broker.admin_config(),
            topic=events_topic,
            from_end=True,
            position_file=tmp_path / "position",
            every_batch=True,
        )

    orders = new_topic(broker, "orders")
    with running(next_tap()) as first:
        wait_until_idle(first)
        produce(broker.client_config("alice"), orders)
        # Its producer id is handed out before the change of taps, and used after it too.
        mallorys = transactional_producer(broker.client_config("mallory"), f"{orders}-m")
        produce_in_transactions(mallorys, orders)
        wait_until(lambda: first.counters.events >= 2, "the events of the first tap")
        wait_until_idle(first)
    produce(broker.client_config("alice"), orders)
    produce_in_transactions(mallorys, orders)
    with running(next_tap()) as second:
        wait_until(lambda: second.counters.events >= 2, "the events in between")
        wait_until_idle(second)

    events = read_events(broker, events_topic)

    assert sorted(key for key, _ in events) == ["User:alice"] * 2 + ["User:mallory"] * 2
    assert len({event["producer_id"] for _, event in events}) == 3
    assert not any(event.get("repeated") for _, event in events)
    assert second.counters.unplaced == 0


def test_what_the_broker_replays_after_a_crash_is_no_event(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        ensure_topics(broker.admin_config())
        orders = new_topic(broker, "orders")
        tap = file_tap(broker.log_file, broker.broker_id, broker.admin_config(), every_batch=True)
        with running(tap):
            produce(broker.client_config("alice"), orders, messages=3)
            wait_until(lambda: tap.counters.events == 3, "events before the crash")
            wait_until_idle(tap)
            broker.kill()
            restart(broker)
            wait_until(lambda: tap.counters.recovered >= 3, "the replay")
            produce(broker.client_config("mallory"), orders)
            wait_until(lambda: tap.counters.events == 4, "the event after the crash")
            wait_until_idle(tap)

        assert [key for key, _ in read_events(broker, PRODUCE_EVENTS)].count("User:alice") == 3


def test_an_event_that_kafka_refuses_ends_the_tap_and_is_sent_again(broker: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(broker.admin_config())
    narrow = new_topic(broker, "events", max_message_bytes="50")

    def next_tap(topic: str) -> SourceTap:
        position_file = tmp_path / "position"
        return file_tap(
            broker.log_file, 1, broker.admin_config(), topic=topic, from_end=True, position_file=position_file
        )

    def run_until_refused() -> None:
        ended = threading.Event()
        with running(next_tap(narrow), ended) as first:
            wait_until_idle(first)
            produce(broker.client_config("alice"), new_topic(broker, "orders"))
            wait_until(ended.is_set, "the tap has ended")

    with pytest.raises(
        TapDeliveryError, match=rf"topic '{narrow}' refused an event \(.*too large.*check the topic's settings"
    ):
        run_until_refused()
    wide = new_topic(broker, "events")
    with running(next_tap(wide)) as second:
        wait_until_idle(second)

    assert [key for key, _ in read_events(broker, wide)] == ["User:alice"]


def test_a_missing_topic_is_named(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.cluster.topics._NEW_TOPIC_S", 0.1)
    tap = file_tap(broker.log_file, broker.broker_id, broker.admin_config(), topic="no-such-topic")

    with pytest.raises(TopicMissingError, match=r"'no-such-topic' does not exist on 127\.0\.0\.1"), running(tap):
        pass


def test_an_unreachable_broker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.cluster.topics.require_topic.__defaults__", (0.5,))
    tap = file_tap(tmp_path / "log", 1, {"bootstrap.servers": "127.0.0.1:1"})

    with pytest.raises(BrokerUnreachableError, match=r"no Kafka broker answers at 127\.0\.0\.1:1"), running(tap):
        pass


def test_since_when_a_broker_is_watched_is_kept_over_a_restart(
    broker: LocalBroker, events_topic: str, tmp_path: Path
) -> None:
    position_file = tmp_path / "position"

    def produced() -> None:
        tap = file_tap(
            broker.log_file,
            1,
            broker.admin_config(),
            topic=events_topic,
            from_end=True,
            position_file=position_file,
            learn_seconds=3600,
        )
        with running(tap):
            wait_until_idle(tap)
            produce(broker.client_config("alice"), new_topic(broker, "orders"))
            wait_until(lambda: tap.counters.events >= 1, "the event")

    def learned() -> LearningTime:
        saved = load_checkpoint(position_file)
        assert saved is not None
        (learning,) = saved.learning.values()
        return learning

    produced()
    first = learned()
    produced()
    second = learned()

    assert (second.since_ms, second.newest_ms > first.newest_ms) == (first.since_ms, True)
    assert [event["learning"] for _, event in read_events(broker, events_topic)] == [True, True]


@pytest.mark.parametrize("log_is_on", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_idle_broker_is_learned_again_only_if_its_log_was_off(
    log_is_on: bool, broker: LocalBroker, events_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.tap.source_tap.HEARTBEAT_S", 2.0)
    monkeypatch.setattr("broker.tap.source_tap.SILENT_S", 1.0)
    told: list[TapHeartbeat] = []
    tap = SourceTap(
        FileSource(broker.log_file, broker.broker_id, from_end=True),
        broker.admin_config(),
        topic=events_topic,
        learn_seconds=5,
        on_heartbeat=told.append,
        questions=Questions(lambda _: log_is_on),
    )
    orders = new_topic(broker, "orders")
    with running(tap):
        wait_until_idle(tap)
        produce(broker.client_config("alice"), orders)
        wait_until(lambda: tap.counters.events >= 1, "the first event")
        idle_from = told[-1].timestamp_ms
        wait_until(lambda: told[-1].timestamp_ms > idle_from + 8_000, "more than the time to learn")
        assert told[-1].logging == log_is_on
        produce(broker.client_config("alice"), orders)
        wait_until(lambda: tap.counters.events >= 2, "the event after the pause")

    learning = [event.get("learning", False) for _, event in read_events(broker, events_topic)]
    assert learning == [True, not log_is_on]


def test_an_empty_position_file_of_a_machine_that_went_down_ends_no_tap(
    broker: LocalBroker, events_topic: str, tmp_path: Path
) -> None:
    position_file = tmp_path / "position"
    position_file.touch()
    tap = file_tap(
        broker.log_file,
        broker.broker_id,
        broker.admin_config(),
        topic=events_topic,
        from_end=True,
        position_file=position_file,
    )
    with running(tap):
        wait_until_idle(tap)

    assert load_checkpoint(position_file) is not None

import threading
from pathlib import Path

import pytest

from broker.errors import BrokerUnreachableError, TapDeliveryError, TopicMissingError
from broker.kafka.tail import TopicReader
from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from broker.tap.learning import LearningTime
from broker.tap.position_file import load_checkpoint
from broker.tap.source_tap import SourceTap
from tests.kits.broker_kit import (
    broker_tap,
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
from wire.topics import PRODUCE_EVENTS


@pytest.fixture
def tap(broker: LocalBroker, events_topic: str) -> SourceTap:
    return broker_tap(broker, topic=events_topic, from_end=True)


def test_each_producer_id_is_an_event_of_the_user_who_used_it(
    broker: LocalBroker, tap: SourceTap, events_topic: str
) -> None:
    orders = new_topic(broker, "orders")
    with running(tap):
        wait_until_idle(tap)
        produce(broker.client_config("alice"), orders, messages=5, client_id="steady")
        for _ in range(5):
            produce(broker.client_config("mallory"), orders, client_id="one-per-message")
        wait_until(lambda: tap.counters.events >= 6, "6 events")
        wait_until_idle(tap)

    events = read_events(broker, events_topic)

    alices = [event for key, event in events if key == "User:alice"]
    mallorys = [event for key, event in events if key == "User:mallory"]
    assert len({event["producer_id"] for event in alices}) == 1
    # One per tick, which may have begun in between.
    assert 1 <= len(alices) <= 2
    assert len({event["producer_id"] for event in mallorys}) == len(mallorys) == 5
    for key, event in events:
        assert event["principal"] == key
        assert (event["topic"], event["partition"], event["broker_id"]) == (orders, 0, broker.broker_id)
        assert (event["producer_epoch"], event["address"]) == (0, "127.0.0.1")
        assert event["client_id"] == ("steady" if key == "User:alice" else "one-per-message")
    assert tap.counters.bad_lines == tap.counters.lost_lines == 0


def test_transactions_belong_to_the_user_who_sent_them(broker: LocalBroker, tap: SourceTap, events_topic: str) -> None:
    orders = new_topic(broker, "orders")
    with running(tap):
        wait_until_idle(tap)
        for number in range(5):
            alices = transactional_producer(broker.client_config("alice"), f"{orders}-a{number}")
            produce_in_transactions(alices, orders, transactions=3)
            produce(broker.client_config("mallory"), orders)
            mallorys = transactional_producer(broker.client_config("mallory"), f"{orders}-m{number}")
            produce_in_transactions(mallorys, orders)
        wait_until(lambda: tap.counters.events >= 5 * 3, "all events")
        wait_until_idle(tap)

    events = read_events(broker, events_topic)

    transactional = [event for _, event in events if event.get("transactional_id")]
    for event in transactional:
        owner = "User:alice" if f"{orders}-a" in event["transactional_id"] else "User:mallory"
        assert event["principal"] == owner
    assert len({event["producer_id"] for event in transactional}) == 10
    assert {event["principal"] for _, event in events if not event.get("transactional_id")} == {"User:mallory"}


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


def test_with_all_clients_stopped_the_events_stand_still(broker: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(broker.admin_config())
    position_file = tmp_path / "position"
    tap = broker_tap(broker, position_file=position_file)
    with running(tap):
        produce(broker.client_config("alice"), new_topic(broker, "orders"), messages=3)
        wait_until(lambda: tap.counters.events >= 1, "an event of the client")
        wait_until_idle(tap)
        stood_at = end_offset(broker, PRODUCE_EVENTS)
        assert stood_at >= 1
        lines = tap.counters.lines

        # A writer of an own topic, and readers as the stream is one: groups, fetches, commits.
        produce(broker.admin_config(), "broker-logs", messages=3)
        with TopicReader(broker.admin_config(), PRODUCE_EVENTS) as reader:
            assert sum(1 for _ in reader.read_to_end()) >= 1
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
        return broker_tap(broker, topic=events_topic, from_end=True, position_file=tmp_path / "position")

    orders = new_topic(broker, "orders")
    with running(next_tap()) as first:
        wait_until_idle(first)
        produce(broker.client_config("alice"), orders)
        # Its producer id is used before the change of taps, and after it.
        mallorys = transactional_producer(broker.client_config("mallory"), f"{orders}-m")
        produce_in_transactions(mallorys, orders)
        wait_until(lambda: first.counters.events >= 2, "the events of the first tap")
        wait_until_idle(first)
    produce(broker.client_config("alice"), orders)
    produce_in_transactions(mallorys, orders)
    with running(next_tap()) as second:
        wait_until(lambda: second.counters.events >= 1, "the event in between")
        wait_until_idle(second)

    events = read_events(broker, events_topic)

    assert [key for key, _ in events].count("User:alice") == 2
    assert len({event["producer_id"] for _, event in events}) == 3
    assert not any(event.get("repeated") for _, event in events)
    assert second.counters.lost_lines == second.counters.duplicates == 0


def test_batches_that_the_broker_replays_after_a_crash_are_no_events(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        ensure_topics(broker.admin_config())
        orders = new_topic(broker, "orders")
        tap = broker_tap(broker)
        with running(tap):
            for _ in range(3):
                produce(broker.client_config("alice"), orders)
            wait_until(lambda: tap.counters.events == 3, "events before the crash")
            wait_until_idle(tap)
            broker.kill()
            restart(broker)
            produce(broker.client_config("mallory"), orders)
            wait_until(lambda: tap.counters.events == 4, "the event after the crash")
            wait_until_idle(tap)

        assert [key for key, _ in read_events(broker, PRODUCE_EVENTS)].count("User:alice") == 3


def test_an_event_that_kafka_refuses_ends_the_tap_and_is_sent_again(broker: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(broker.admin_config())
    narrow = new_topic(broker, "events", max_message_bytes="50")

    def next_tap(topic: str) -> SourceTap:
        position_file = tmp_path / "position"
        return broker_tap(broker, topic=topic, from_end=True, position_file=position_file)

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
    monkeypatch.setattr("broker.kafka.topics._NEW_TOPIC_S", 0.1)
    tap = broker_tap(broker, topic="no-such-topic")

    with pytest.raises(TopicMissingError, match=r"'no-such-topic' does not exist on 127\.0\.0\.1"), running(tap):
        pass


def test_an_unreachable_broker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.kafka.topics.require_topic.__defaults__", (0.5,))
    tap = file_tap(tmp_path / "log", 1, {"bootstrap.servers": "127.0.0.1:1"})

    with pytest.raises(BrokerUnreachableError, match=r"no Kafka broker answers at 127\.0\.0\.1:1"), running(tap):
        pass


def test_since_when_a_broker_is_watched_is_kept_over_a_restart(
    broker: LocalBroker, events_topic: str, tmp_path: Path
) -> None:
    position_file = tmp_path / "position"

    def produced() -> None:
        tap = broker_tap(broker, topic=events_topic, from_end=True, position_file=position_file, learn_seconds=3600)
        with running(tap):
            wait_until_idle(tap)
            produce(broker.client_config("alice"), new_topic(broker, "orders"))
            wait_until(lambda: tap.counters.events >= 1, "the event")

    def learned() -> LearningTime:
        saved = load_checkpoint(position_file)
        assert saved is not None
        (watch,) = saved.watches.values()
        return watch.learning

    produced()
    first = learned()
    produced()
    second = learned()

    assert (second.since_ms, second.newest_ms > first.newest_ms) == (first.since_ms, True)
    assert [event["learning"] for _, event in read_events(broker, events_topic)] == [True, True]


def test_an_empty_position_file_of_a_machine_that_went_down_ends_no_tap(
    broker: LocalBroker, events_topic: str, tmp_path: Path
) -> None:
    position_file = tmp_path / "position"
    position_file.touch()
    tap = broker_tap(broker, topic=events_topic, from_end=True, position_file=position_file)
    with running(tap):
        wait_until_idle(tap)

    assert load_checkpoint(position_file) is not None


def test_a_broker_that_shut_down_is_watched_on_and_one_that_was_killed_is_watched_anew(
    jars: Path, tmp_path: Path
) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        ensure_topics(broker.admin_config())
        position_file = tmp_path / "position"

        def since_ms() -> int:
            tap = broker_tap(broker, position_file=position_file, learn_seconds=3600)
            with running(tap):
                produce(broker.client_config("alice"), orders)
                wait_until(lambda: tap.counters.events >= 1, "the event")
                wait_until_idle(tap)
            saved = load_checkpoint(position_file)
            assert saved is not None
            return saved.watches[1].learning.since_ms

        orders = new_topic(broker, "orders")
        first = since_ms()
        restart(broker)
        assert since_ms() == first
        broker.kill()
        restart(broker)
        assert since_ms() > first

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from broker.doctor.findings import ok
from broker.doctor.tap_checks import check_taps
from broker.kafka import producers
from broker.kafka.config import KafkaConfig
from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from broker.tap.poll_placing import OwnerPatterns, PollOwners
from broker.tap.producer_poll import LedProducers, ProducerPoll
from broker.tap.tap_status import WatchedBroker, WatchState, read_heartbeats, watch_states
from tests.kits.broker_kit import LIMIT_S, new_topic, produce, read_events, transactional_producer, wait_until


class Clock:
    """Ten seconds pass between any two looks: no repeat is within a tick."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        self.now += 10.0
        return self.now


@contextmanager
def polling(poll: ProducerPoll) -> Iterator[ProducerPoll]:
    stop, errors = threading.Event(), []

    def run() -> None:
        try:
            poll.run(stop)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: poll.counters.polls >= 1 or bool(errors), "the first round")
        assert errors == []
        yield poll
    finally:
        stop.set()
        thread.join()
    assert errors == []


def next_rounds(poll: ProducerPoll) -> None:
    """Until a round that began after now has ended."""
    goal = poll.counters.polls + 2
    wait_until(lambda: poll.counters.polls >= goal, "two more rounds")


def idempotent_producer(broker: LocalBroker, user: str, known: list[int]) -> Producer:
    """A producer that tells its own producer id by librdkafka's statistics."""

    def learn(statistics: str) -> None:
        known.append(json.loads(statistics)["eos"]["producer_id"])

    settings = {"enable.idempotence": True, "statistics.interval.ms": 50, "log_level": 3, "stats_cb": learn}
    return Producer({**broker.client_config(user), **settings})


def produce_and_learn(broker: LocalBroker, topic: str) -> int:
    known: list[int] = []
    producer = idempotent_producer(broker, "alice", known)
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(LIMIT_S) == 0
    wait_until(lambda: producer.poll(0.05) >= 0 and bool(known) and known[-1] >= 0, "the producer id")
    return known[-1]


def owners(tmp_path: Path, text: str) -> PollOwners:
    file = tmp_path / "owners.yaml"
    file.write_text(text, encoding="utf-8")
    return PollOwners(OwnerPatterns.load(file), from_acls=False)


def poll_of(broker: LocalBroker, **more: Any) -> ProducerPoll:
    settings: dict[str, Any] = {"requests_per_second": 200.0, "clock": Clock(), **more}
    return ProducerPoll(KafkaConfig.load(broker.admin_servers), 0.1, **settings)


def test_each_new_producer_id_of_an_owned_topic_is_told_once(broker: LocalBroker, tmp_path: Path) -> None:
    events, orders, foreign = (new_topic(broker, name) for name in ("events", "orders", "foreign"))
    produce(broker.client_config("alice"), orders)
    rules = owners(tmp_path, f"- topic: {orders}\n  principal: User:shop\n")

    with polling(poll_of(broker, owners=rules, topic=events)) as poll:
        made = [produce_and_learn(broker, orders) for _ in range(3)]
        produce(broker.client_config("alice"), foreign)
        next_rounds(poll)
        assert poll.counters.failed_partitions == 0

    told = read_events(broker, events)
    # Not the one that was there before the first round: the broker remembers the dead for a day.
    assert [key for key, _ in told] == ["User:shop"] * 3
    assert [event["producer_id"] for _, event in told] == made
    assert {(event["topic"], event["broker_id"]) for _, event in told} == {(orders, 1)}


def test_a_new_batch_of_a_known_producer_id_is_told_again(broker: LocalBroker, tmp_path: Path) -> None:
    events, orders = new_topic(broker, "events"), new_topic(broker, "orders")
    known: list[int] = []
    producer = idempotent_producer(broker, "alice", known)
    producer.produce(orders, b"value", partition=0)
    assert producer.flush(LIMIT_S) == 0
    rules = owners(tmp_path, "- topic: 'orders-*'\n  principal: User:shop\n")

    with polling(poll_of(broker, owners=rules, topic=events)) as poll:
        next_rounds(poll)
        assert poll.counters.events == 0
        producer.produce(orders, b"value", partition=0)
        assert producer.flush(LIMIT_S) == 0
        next_rounds(poll)

    assert [event["topic"] for _, event in read_events(broker, events)] == [orders]


def test_a_transactional_id_places_before_the_topic(broker: LocalBroker, tmp_path: Path) -> None:
    events, orders = new_topic(broker, "events"), new_topic(broker, "orders")
    rules = owners(
        tmp_path,
        f"- topic: {orders}\n  principal: User:shop\n- transactional_id: billing-?\n  principal: User:billing\n",
    )
    producer = transactional_producer(broker.client_config("alice"), "billing-1")

    with polling(poll_of(broker, owners=rules, topic=events)) as poll:
        producer.begin_transaction()
        producer.produce(orders, b"value", partition=0)
        producer.commit_transaction(LIMIT_S)
        next_rounds(poll)

    assert {key for key, _ in read_events(broker, events)} == {"User:billing"}


def test_without_owners_the_producer_ids_are_only_counted(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PARTITIONS_PER_REQUEST", 1)
    orders = new_topic(broker, "orders", partitions=3)
    for _ in range(2):
        produce(broker.client_config("alice"), orders)
    bills = new_topic(broker, "bills")
    producer = transactional_producer(broker.client_config("alice"), "billing-2")
    producer.begin_transaction()
    producer.produce(bills, b"the first record of the partition", partition=0)
    assert producer.flush(LIMIT_S) == 0
    rounds: list[Sequence[LedProducers]] = []

    with polling(poll_of(broker, report=rounds.append)) as poll:
        next_rounds(poll)
    producer.abort_transaction(LIMIT_S)

    assert LedProducers(1, orders, 2, 0) in rounds[-1]
    assert LedProducers(1, bills, 1, 1) in rounds[-1]
    assert poll.counters.events == 0


def test_each_broker_is_watched_while_the_poll_runs(broker: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(broker.admin_config())
    rules = owners(tmp_path, "- topic: orders\n  principal: User:shop\n")

    def watch() -> WatchedBroker:
        (found,) = watch_states([1], read_heartbeats(broker.admin_config()), round(time.time() * 1000))
        return found

    with polling(poll_of(broker, owners=rules, topic=new_topic(broker, "events"), clock=time.time)):
        wait_until(lambda: watch().watch is WatchState.WATCHED, "its heartbeat")
        assert watch().heartbeat is not None
        assert [*check_taps([watch()])] == [ok("taps", "brokers that are watched: 1")]

    assert watch().watch is WatchState.STOPPED

"""Tests of the lock after its topic was deleted, with a fake consumer; tests/attack has real ones."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import create_autospec, patch

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from broker.enforcement.lock import LOCK_PARTITION, EnforcerLock
from broker.errors import EnforcerLockError, LeaseStoreError
from wire.topics import ENFORCER_TOPIC


@pytest.fixture
def consumer() -> Iterator[Any]:
    made = create_autospec(Consumer, instance=True)
    made.poll.return_value = None
    made.commit.side_effect = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    with patch("broker.enforcement.lock.Consumer", return_value=made):
        yield made


def holder(consumer: Any) -> EnforcerLock:
    with patch("broker.enforcement.lock.ensure_enforcer_topic"):
        lock = EnforcerLock({"bootstrap.servers": "b1:9092"})
    consumer.subscribe.call_args.kwargs["on_assign"](consumer, [TopicPartition(ENFORCER_TOPIC, LOCK_PARTITION)])
    return lock


def test_the_holder_may_end_leases_although_the_topic_is_gone_and_can_t_be_made(consumer: Any) -> None:
    lock = holder(consumer)
    with patch("broker.enforcement.lock.ensure_enforcer_topic", side_effect=EnforcerLockError("no right to CREATE")):
        assert lock.confirm()


def test_recreating_the_topic_is_reported(consumer: Any) -> None:
    lock = holder(consumer)
    with (
        patch("broker.enforcement.lock.ensure_enforcer_topic") as made,
        pytest.raises(LeaseStoreError, match="was deleted and has been recreated"),
    ):
        lock.confirm()
    made.assert_called_once()


def test_only_an_answer_of_the_brokers_confirms_it(consumer: Any) -> None:
    def commit(*, asynchronous: bool, **_: Any) -> None:
        # As librdkafka does: only the caller that waits learns that another member has the partition.
        if not asynchronous:
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))

    consumer.commit.side_effect = commit
    assert not holder(consumer).confirm()


def test_each_time_it_is_taken_counts(consumer: Any) -> None:
    lock = holder(consumer)
    partitions = [TopicPartition(ENFORCER_TOPIC, LOCK_PARTITION)]
    callbacks = consumer.subscribe.call_args.kwargs
    callbacks["on_lost"](consumer, partitions)
    callbacks["on_assign"](consumer, partitions)
    assert (lock.is_held(), lock.times_taken) == (True, 2)


def test_a_second_partition_is_no_lock(consumer: Any) -> None:
    with patch("broker.enforcement.lock.ensure_enforcer_topic"):
        lock = EnforcerLock({"bootstrap.servers": "b1:9092"})
    consumer.subscribe.call_args.kwargs["on_assign"](consumer, [TopicPartition(ENFORCER_TOPIC, LOCK_PARTITION + 1)])
    assert not lock.is_held()

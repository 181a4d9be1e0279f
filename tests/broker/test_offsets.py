import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.errors import BrokerUnreachableError
from broker.kafka import offsets
from broker.kafka.offsets import OldestRecord, events_per_record, oldest_record
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import make_topic, transactional_producer


def test_the_oldest_record_of_all_partitions_tells_where_a_topic_begins(broker: LocalBroker) -> None:
    admin = AdminClient(broker.admin_config() | {"log_level": 0})
    make_topic(broker, "begins", 3)
    assert oldest_record(broker.admin_config(), "begins") == OldestRecord(None, is_first=True)

    oldest_ms = round(time.time() * 1000) - 60_000
    producer = Producer(broker.admin_config())
    producer.produce("begins", b"newer", partition=0, timestamp=oldest_ms + 30_000)
    producer.produce("begins", b"oldest", partition=2, timestamp=oldest_ms)
    producer.flush()

    assert oldest_record(broker.admin_config(), "begins") == OldestRecord(oldest_ms, is_first=True)

    deleted = TopicPartition("begins", 2, 1)
    admin.delete_records([deleted])[deleted].result()
    assert oldest_record(broker.admin_config(), "begins") == OldestRecord(oldest_ms + 30_000, is_first=False)


def test_a_partition_with_aborted_transactions_only_has_no_oldest_record(broker: LocalBroker) -> None:
    make_topic(broker, "aborted", 2)
    producer = transactional_producer(broker.admin_config(), "aborts")
    producer.begin_transaction()
    producer.produce("aborted", b"never seen", partition=0)
    producer.flush()
    producer.abort_transaction()

    assert oldest_record(broker.admin_config(), "aborted") == OldestRecord(None, is_first=True)


def test_a_broker_that_returns_no_record_in_time_is_not_an_empty_topic(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer(broker.admin_config())
    producer.produce("slow", b"record")
    producer.flush()
    monkeypatch.setattr(offsets, "_TIMEOUT_S", 1.0)
    # The broker waits for more bytes than the topic has.
    waits = {"fetch.min.bytes": "1000000", "fetch.wait.max.ms": "60000", "socket.timeout.ms": "61000"}

    with pytest.raises(BrokerUnreachableError, match="no record of topic 'slow' came in 1 s: check that brokers run"):
        oldest_record({**broker.admin_config(), **waits}, "slow")


def test_the_newest_records_tell_how_many_events_a_record_holds(broker: LocalBroker) -> None:
    make_topic(broker, "several", 3)
    assert events_per_record(broker.admin_config(), "several") == 1

    producer = Producer(broker.admin_config())
    for partition, value in ((0, b'{"producer_ids":[1,2,3,4]}'), (0, b'{"producer_id":1}'), (2, b"broken")):
        producer.produce("several", value, partition=partition)
    producer.flush()

    assert events_per_record(broker.admin_config(), "several") == 2

import uuid

import msgspec
import numpy as np
import pytest
from confluent_kafka import Producer

from broker.kafka.topics import admin_client
from broker.local.local_broker import LocalBroker
from broker.occupancy import census
from broker.occupancy.census import TAIL_MS, read_owners
from lifecycle.occupancy import NOT_KNOWN_MS
from wire.event_record import EventRecord
from wire.plugin_reports import InitReport
from wire.topics import PRODUCE_EVENTS, REPORTS

NOW_MS = 1_790_000_000_000


@pytest.fixture
def pid() -> int:
    """The first of some producer ids of a test's own: all tests share the topics."""
    return uuid.uuid4().int % 2**50


def init(cluster_id: str, producer_id: int, principal: str, at_ms: int) -> InitReport:
    return InitReport(
        at_ms, 1, cluster_id, principal=principal, address="10.0.0.7", error="NONE", result_producer_id=producer_id
    )


def event(producer_id: int, principal: str, at_ms: int) -> EventRecord:
    return EventRecord(at_ms, principal, [0], [producer_id])


def write(broker: LocalBroker, topic: str, *records: msgspec.Struct | bytes, at_ms: int = NOW_MS) -> None:
    producer = Producer(broker.admin_config())
    for record in records:
        value = record if isinstance(record, bytes) else msgspec.json.encode(record)
        producer.produce(topic, value, timestamp=at_ms)
    assert producer.flush(60) == 0


def test_an_append_tells_the_owner_and_else_the_last_who_was_handed_the_id(broker: LocalBroker, pid: int) -> None:
    own = admin_client(broker.admin_config()).metadata().cluster_id or ""
    moved = init(own, pid + 1, "User:bob", NOW_MS - 10), init(own, pid + 1, "User:alice", NOW_MS - 50)
    write(broker, REPORTS, b"rubbish", init(own, pid, "User:alice", NOW_MS - 90), *moved)
    write(broker, REPORTS, init(own, pid + 2, "User:alice", NOW_MS - 90))
    # A mirrored topic has reports of another cluster.
    write(broker, REPORTS, init("another cluster", pid + 4, "User:carol", NOW_MS - 95))
    # The topics have LogAppendTime: these are of now.
    several = EventRecord(NOW_MS - 7, "User:mallory", [0, 1], [pid + 2, pid + 3])
    write(broker, PRODUCE_EVENTS, b"rubbish", event(pid + 2, "User:older", NOW_MS - 9), several)

    owners = read_owners(broker.admin_config(), np.arange(pid, pid + 5), NOW_MS)

    assert owners.bound == {
        pid: ("User:alice", NOW_MS - 90),
        pid + 1: ("User:bob", NOW_MS - 50),
        pid + 2: ("User:mallory", NOW_MS - 90),
        pid + 3: ("User:mallory", NOT_KNOWN_MS),
    }
    # Other tests of this broker may have written older ones.
    assert 0 < owners.known_since_ms <= NOW_MS - 90


def test_of_the_events_only_the_tail_is_read(broker: LocalBroker, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write(broker, PRODUCE_EVENTS, event(pid, "User:mallory", NOW_MS))

    # As if these had been written long ago.
    monkeypatch.setattr(census, "TAIL_MS", TAIL_MS - 2**42)

    assert read_owners(broker.admin_config(), np.array([pid]), NOW_MS).bound == {}

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from broker.enforcement.store.event_addresses import EventAddresses
from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import wait_until
from tests.kits.plugin_kit import NO_PLUGIN
from wire.event_record import ProduceEvent, pack_events
from wire.topics import PRODUCE_EVENTS

HERE, THERE = "10.0.0.5", "10.0.0.6"
ALICE, MALLORY = "User:alice", "User:mallory"
NO_TOPICS: dict[str, Any] = {"auto_create_topics_enable": "false"}


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker of our own: events of others may have no address."""
    with LocalBroker(tmp_path / "kafka", jars=jars) as running:
        running.wait_for_plugin()
        yield running


def following(broker: LocalBroker) -> EventAddresses:
    addresses = EventAddresses(broker.client_config("mallory"), time.time)
    assert addresses.unavailable_reason() == "the events of the last hour are still being read"
    return addresses


def send(broker: LocalBroker, principal: str, *addresses: str | None) -> None:
    at_ms = round(1000 * time.time())
    events = [ProduceEvent(at_ms, principal, 7, 0, 1, "orders", 0, address=address) for address in addresses]
    producer = Producer({**broker.admin_config(), "enable.idempotence": False})
    for record in pack_events(events):
        producer.produce(PRODUCE_EVENTS, msgspec.json.encode(record), record.principal)
    assert producer.flush(60) == 0


def write(broker: LocalBroker, value: bytes) -> None:
    producer = Producer({**broker.admin_config(), "enable.idempotence": False})
    producer.produce(PRODUCE_EVENTS, value)
    assert producer.flush(60) == 0


def users(addresses: EventAddresses, address: str) -> set[str]:
    return {*addresses.principals(address)}


def test_addresses_of_old_and_new_events_are_known_until_an_event_has_none(
    broker: LocalBroker,
) -> None:
    send(broker, MALLORY, HERE, THERE)
    with following(broker) as addresses:
        wait_until(lambda: addresses.unavailable_reason() == "", "all is read")
        assert (users(addresses, HERE), users(addresses, THERE)) == ({MALLORY}, {MALLORY})

        # What is no event teaches nothing, and stops nothing.
        for value in (b"", b"{", b'{"q":' * 100_000, b"\xff", b'{"principal":7}'):
            write(broker, value)
        send(broker, ALICE, THERE)
        wait_until(lambda: users(addresses, THERE) == {MALLORY, ALICE}, "alice is seen")
        assert (users(addresses, HERE), addresses.unavailable_reason()) == ({MALLORY}, "")

        send(broker, ALICE, HERE, None)
        wait_until(lambda: "have no address" in addresses.unavailable_reason(), "it can't tell any more")


def test_an_unreadable_topic_is_the_reason_until_it_is_readable(jars: Path, tmp_path: Path) -> None:
    with (
        LocalBroker(tmp_path / "kafka", jars=jars, metric_reporters=NO_PLUGIN, **NO_TOPICS) as broker,
        following(broker) as addresses,
    ):
        wait_until(lambda: f"no topic '{PRODUCE_EVENTS}'" in addresses.unavailable_reason(), "it is missing")
        ensure_topics(broker.admin_config())
        send(broker, MALLORY, HERE)
        wait_until(lambda: addresses.unavailable_reason() == "", "it is there")
        wait_until(lambda: users(addresses, HERE) == {MALLORY}, "it is read")

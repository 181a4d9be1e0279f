import json
import time

import msgspec
import pytest
from confluent_kafka import Producer

from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import new_topic
from tests.kits.following_kit import Following
from wire.event_record import EventRecord, ProduceEvent, pack_events


def now_ms() -> int:
    """The command shows the last ten minutes by default, so each test takes its own time."""
    return round(time.time() * 1000)


def send(broker: LocalBroker, topic: str, *values: bytes, ago_ms: int = 0) -> None:
    producer = Producer(broker.admin_config())
    for value in values:
        producer.produce(topic, value, timestamp=now_ms() - ago_ms)
    assert producer.flush(60) == 0


def event(principal: str, producer_id: int) -> bytes:
    made = ProduceEvent(now_ms(), principal, producer_id, 0, 1, "orders", 3, client_id="app")
    (record,) = pack_events([made])
    return msgspec.json.encode(record)


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    """A topic with an event of an hour ago and two new ones, one of which is none."""
    topic = new_topic(broker, "events", partitions=3)
    send(broker, topic, event("User:old", 6), ago_ms=3_600_000)
    send(broker, topic, event("User:alice", 7), b"\xffno\x1b[2J")
    return topic


def test_without_following_it_shows_those_since_a_time_and_ends(
    broker: LocalBroker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["events", "--bootstrap-server", broker.admin_servers, "--topic", topic]

    assert run(options) == 0
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines[0][20:] == "  User:alice  pid 7  orders-3  broker 1  client app"
    assert lines[1] == "no event: \\xffno\\x1b[2J"

    assert run([*options, "--since", "2h", "--json", "--principal", "old"]) == 0
    (old,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (old["principal"], old["producer_id"]) == ("User:old", 6)


def test_a_record_of_several_events_is_shown_as_so_many_lines(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(broker, "events", partitions=1)
    records = [msgspec.json.decode(event("User:alice", pid), type=EventRecord) for pid in (7, 8)]
    first, second = (each for record in records for each in record.events())
    events = [first, msgspec.structs.replace(second, address="10.0.0.7")]
    (value,) = map(msgspec.json.encode, pack_events(events))
    odd = value.replace(b'"producer_ids":[7,8]', b'"producer_ids":[7]')
    send(broker, topic, value, odd, event("User:alice", 9))

    assert run(["events", "--bootstrap-server", broker.admin_servers, "--topic", topic]) == 0

    lines = [line[20:] for line in capsys.readouterr().out.splitlines()]
    shown = [f"  User:alice  pid {pid}  orders-3  broker 1  client app" for pid in (7, 8, 9)]
    shown[1] += "  from 10.0.0.7"
    assert [*lines[:2], lines[3]] == shown
    assert '"producer_ids":[7]' in lines[2]


def test_it_follows_and_ends_by_ctrl_c(broker: LocalBroker, topic: str) -> None:
    options = ("--bootstrap-servers", broker.admin_servers, "--topic", topic, "--principal", "alice", "--json")
    with Following("events", *options, "--since", "10m", "--follow") as shown:
        shown.wait_for(1)
        send(broker, topic, event("User:bob", 8), event("User:alice", 9))
        lines = shown.wait_for(2)

        assert shown.end() == (0, "")

    assert [json.loads(line)["producer_id"] for line in lines] == [7, 9]


def test_from_the_end_what_was_there_is_not_shown(broker: LocalBroker, topic: str) -> None:
    with Following("events", "--bootstrap-servers", broker.admin_servers, "--topic", topic, "-f") as shown:
        while not shown.lines:
            # It may not have looked up the end yet.
            send(broker, topic, event("User:new", 10))
            time.sleep(0.2)
        assert shown.end() == (0, "")

    assert all("User:new" in line for line in shown.lines)

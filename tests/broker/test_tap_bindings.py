"""What taps of several brokers tell each other, and what becomes of batches whose owner nobody knows yet."""

import json
import re
import uuid
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.cluster.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from tests.broker_kit import (
    end_offset,
    file_tap,
    new_topic,
    produce_in_transactions,
    read_events,
    running,
    transactional_producer,
    wait_until,
    wait_until_idle,
)
from wire.topics import PRODUCER_INITS, PRODUCER_PRINCIPALS, TAP_STATUS

if TYPE_CHECKING:
    from confluent_kafka import Producer

FIXTURE = (Path(__file__).parents[1] / "unit" / "broker" / "broker_lines.jsonl").read_bytes().splitlines(keepends=True)
# A producer id of a test's own: all tests share the topic of bindings.
ORIGINAL_PID = "producer 4 "


@pytest.fixture
def pid() -> int:
    return uuid.uuid4().int % 2**50 + 10_000


@pytest.fixture
def events_topic(broker: LocalBroker) -> str:
    ensure_topics(broker.admin_config())
    return new_topic(broker, "events", partitions=2)


def batch_line(pid: int) -> bytes:
    """A batch of a transaction."""
    line = next(line for line in FIXTURE if ORIGINAL_PID.encode() in line and b"OptionalLong[" in line)
    return line.replace(b"producer 4 ", b"producer %d " % pid).replace(b"producerId=4,", b"producerId=%d," % pid)


def init_lines(pid: int) -> bytes:
    lines = [line for line in FIXTURE if b"java-tx" in line and b"InitProducerId" in line]
    return b"".join(lines).replace(b"Result(4,0,NONE)", b"Result(%d,0,NONE)" % pid)


def append(path: Path, text: bytes) -> None:
    """Write lines as a broker would: numbered one by one."""
    first = path.read_bytes().count(b"\n") + 1 if path.exists() else 1
    numbers = count(first)
    with path.open("ab") as file:
        file.write(re.sub(rb'"sn":\d+', lambda _: b'"sn":%d' % next(numbers), text))


def test_a_tap_places_transactions_whose_ids_another_broker_handed_out(
    broker: LocalBroker, events_topic: str, tmp_path: Path, pid: int
) -> None:
    first_log, second_log = tmp_path / "1.log", tmp_path / "2.log"
    with running(file_tap(first_log, 1, broker.admin_config(), topic=events_topic)) as first:
        second = file_tap(second_log, 2, broker.admin_config(), topic=events_topic, wait_s=600)
        with running(second):
            # The batch is there before anybody knows its owner.
            append(second_log, batch_line(pid))
            wait_until(lambda: second.counters.waited == 1, "the batch waits")
            append(first_log, init_lines(pid))
            wait_until(lambda: second.counters.placed_late == 1, "the binding came")
        wait_until_idle(first)
    # Long after: it is in the topic, and nothing of it in the log of this broker.
    with running(file_tap(tmp_path / "3.log", 3, broker.admin_config(), topic=events_topic)) as third:
        append(tmp_path / "3.log", batch_line(pid))
        wait_until(lambda: third.counters.events == 1, "the batch")
        wait_until_idle(third)

    events = [event for _, event in read_events(broker, events_topic)]
    assert sorted((event["principal"], event["broker_id"], event["producer_id"]) for event in events) == [
        ("User:alice", 2, pid),
        ("User:alice", 3, pid),
    ]
    assert third.counters.waited == 0
    announced = [value for key, value in read_events(broker, PRODUCER_PRINCIPALS) if key == str(pid)]
    # Once: by whom it was seen, not by those who read it.
    assert [(each["principal"], each["transactional_id"], each["broker_id"]) for each in announced] == [
        ("User:alice", "java-tx", 1)
    ]
    inits = [value for _, value in read_events(broker, PRODUCER_INITS) if value["result_producer_id"] == pid]
    assert [(each["principal"], each["client_host"], each["error"]) for each in inits] == [
        ("User:alice", "127.0.0.1", "NONE")
    ]


@pytest.mark.slow
def test_a_binding_that_comes_too_late_makes_one_correction(
    broker: LocalBroker, events_topic: str, tmp_path: Path, pid: int
) -> None:
    log = tmp_path / "log"
    tap = file_tap(log, 1, broker.admin_config(), topic=events_topic, wait_s=0)
    with running(tap):
        append(log, batch_line(pid))
        wait_until(lambda: tap.counters.unplaced == 1, "unknown")
        append(log, init_lines(pid) * 2)
        wait_until(lambda: tap.counters.bindings == 2, "both answers")
        wait_until_idle(tap)

    events = [event for _, event in read_events(broker, events_topic)]
    assert [(event["principal"], event.get("correction", False)) for event in sorted(events, key=len)] == [
        ("unknown", False),
        ("User:alice", True),
    ]


def test_a_batch_that_waits_survives_a_crash_of_the_tap(
    broker: LocalBroker, events_topic: str, tmp_path: Path, pid: int
) -> None:
    log, position_file = tmp_path / "log", tmp_path / "position"
    first = file_tap(log, 1, broker.admin_config(), topic=events_topic, position_file=position_file, wait_s=600)
    append(log, batch_line(pid))
    with running(first):
        wait_until(lambda: position_file.exists() and b'"waiting":[{' in position_file.read_bytes(), "saved")
        saved = position_file.read_bytes()
    # As if it had been killed: what it did at its end did not happen.
    position_file.write_bytes(saved)
    before = end_offset(broker, events_topic)
    second = file_tap(log, 1, broker.admin_config(), topic=events_topic, position_file=position_file, wait_s=600)
    with running(second):
        append(log, init_lines(pid))
        wait_until(lambda: second.counters.placed_late == 1, "placed")
        wait_until_idle(second)

    new = [event for _, event in read_events(broker, events_topic) if event["principal"] != "unknown"]
    assert [(event["producer_id"], event["principal"], event["repeated"]) for event in new] == [
        (pid, "User:alice", True)
    ]
    assert end_offset(broker, events_topic) == before + 1


def test_events_that_a_killed_tap_may_have_sent_are_marked(
    broker: LocalBroker, events_topic: str, tmp_path: Path
) -> None:
    log, position_file = tmp_path / "log", tmp_path / "position"
    saves: list[bytes] = []
    lines = b"".join(line for line in FIXTURE[:6])
    append(log, lines)
    with running(file_tap(log, 1, broker.admin_config(), topic=events_topic, position_file=position_file)) as first:
        wait_until_idle(first)
    assert json.loads(position_file.read_bytes())["sent_up_to"] is None
    saved = json.loads(position_file.read_bytes())
    # A run that got to its end, but was killed before it could save the position.
    saves.append(
        json.dumps({**saved, "sent_up_to": saved["position"], "position": {**saved["position"], "offset": 0}}).encode()
    )
    position_file.write_bytes(saves[0])
    with running(file_tap(log, 1, broker.admin_config(), topic=events_topic, position_file=position_file)) as second:
        wait_until(lambda: second.counters.events == 1, "again")
        append(log, lines.replace(b"127952389", b"127952390"))
        wait_until(lambda: second.counters.lines == 12, "new lines")
        wait_until_idle(second)

    marks = [event.get("repeated", False) for _, event in read_events(broker, events_topic)]
    assert marks[:2] == [False, True]
    assert not any(marks[2:])


def test_a_real_transaction_that_began_before_the_tap_is_placed_when_its_binding_is_known(
    broker: LocalBroker, events_topic: str, tmp_path: Path
) -> None:
    orders = new_topic(broker, "orders")
    with running(
        file_tap(broker.log_file, 1, broker.admin_config(), topic=new_topic(broker, "other"), from_end=True)
    ) as other:
        wait_until_idle(other)
        producer: Producer = transactional_producer(broker.client_config("alice"), f"{orders}-a")

        def is_announced() -> bool:
            # The tap's own producer id is handed out, too: only this one's counts.
            announced = [value.get("transactional_id") for _, value in read_events(broker, PRODUCER_PRINCIPALS)]
            return f"{orders}-a" in announced

        wait_until(is_announced, "the binding")
    # This one never sees the producer id handed out.
    with running(file_tap(broker.log_file, 1, broker.admin_config(), topic=events_topic, from_end=True)) as tap:
        wait_until_idle(tap)
        produce_in_transactions(producer, orders)
        wait_until(lambda: tap.counters.events >= 1, "the event")
        wait_until_idle(tap)

    events = [event for _, event in read_events(broker, events_topic) if event["topic"] == orders]
    assert {event["principal"] for event in events} == {"User:alice"}


def test_each_broker_has_a_heartbeat_and_a_last_one(broker: LocalBroker, events_topic: str, tmp_path: Path) -> None:
    node = uuid.uuid4().int % 10**6 + 1000
    with running(file_tap(tmp_path / "log", node, broker.admin_config(), topic=events_topic)) as tap:
        wait_until_idle(tap)
        wait_until(lambda: any(key == str(node) for key, _ in read_events(broker, TAP_STATUS)), "a heartbeat")

    beats = [value for key, value in read_events(broker, TAP_STATUS) if key == str(node)]
    assert [beat["stopped"] for beat in beats] == [False, True]
    assert beats[-1]["source"] == "file"
    assert beats[-1]["behind_bytes"] == 0
    assert beats[-1]["counters"]["events"] == 0

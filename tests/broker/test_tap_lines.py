import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from broker.kafka.tail import TopicReader
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import file_tap, read_events, running, wait_until, wait_until_idle
from tests.kits.class_lines_kit import ClassLines, append
from wire.topics import PRODUCER_INITS, TAP_STATUS


@pytest.fixture
def lines() -> ClassLines:
    """Of a broker of its own: all tests share the topic of heartbeats."""
    return ClassLines(broker_id=uuid.uuid4().int % 10**6 + 1000)


def test_a_line_becomes_an_event_with_the_address_and_an_answer_an_init(
    broker: LocalBroker, events_topic: str, tmp_path: Path, lines: ClassLines
) -> None:
    pid = uuid.uuid4().int % 2**50
    append(tmp_path / "log", lines.start(), lines.init(pid, "User:é\n😀"), lines.batch(pid, "User:é\n😀"))
    tap = file_tap(tmp_path / "log", lines.broker_id, broker.admin_config(), topic=events_topic)
    with running(tap):
        wait_until(lambda: tap.counters.events == 1, "the event")
        wait_until_idle(tap)

    ((key, event),) = read_events(broker, events_topic)
    assert (key, event["principal"], event["producer_id"], event["address"]) == (
        *("User:é\n😀", "User:é\n😀", pid, "10.0.0.7"),
    )
    with TopicReader(broker.admin_config(), PRODUCER_INITS) as topic:
        # Other tests write there, too, and not only JSON.
        values = [message.value() or b"" for message in topic.read_to_end()]
    (init,) = [json.loads(value) for value in values if str(pid).encode() in value]
    assert (init["principal"], init["client_host"], init["error"]) == ("User:é\n😀", "10.0.0.7", "NONE")


def test_each_broker_has_a_heartbeat_and_a_last_one(
    broker: LocalBroker, events_topic: str, tmp_path: Path, lines: ClassLines
) -> None:
    key = str(lines.broker_id)
    append(tmp_path / "log", lines.start(), b"rubbish")
    with running(file_tap(tmp_path / "log", lines.broker_id, broker.admin_config(), topic=events_topic)) as tap:
        wait_until_idle(tap)
        wait_until(lambda: any(of == key for of, _ in read_events(broker, TAP_STATUS)), "a heartbeat")

    beats = [value for of, value in read_events(broker, TAP_STATUS) if of == key]
    assert [beat["stopped"] for beat in beats] == [False, True]
    last = beats[-1]
    assert (last["source"], last["behind_bytes"], last["class_version"]) == ("file", 0, "0.3.0")
    assert (last["counters"]["bad_lines"], last["bad_samples"]) == (1, ["rubbish"])


def test_events_that_a_killed_tap_may_have_sent_are_marked(
    broker: LocalBroker, events_topic: str, tmp_path: Path, lines: ClassLines
) -> None:
    log, position_file = tmp_path / "log", tmp_path / "position"
    options: dict[str, Any] = {"topic": events_topic, "position_file": position_file}
    append(log, lines.start())
    with running(file_tap(log, lines.broker_id, broker.admin_config(), **options)) as first:
        wait_until_idle(first)
    before = json.loads(position_file.read_bytes())
    append(log, lines.batch(1))
    with running(file_tap(log, lines.broker_id, broker.admin_config(), **options)) as second:
        wait_until(lambda: second.counters.events == 1, "the event")
        wait_until_idle(second)
    # A run that got to its end, but was killed before it could save the position.
    after = json.loads(position_file.read_bytes())
    position_file.write_text(json.dumps({**before, "sent_up_to": after["position"]}), encoding="utf-8")
    with running(file_tap(log, lines.broker_id, broker.admin_config(), **options)) as third:
        wait_until(lambda: third.counters.events == 1, "the event again")
        append(log, lines.batch(2))
        wait_until(lambda: third.counters.events == 2, "the new event")
        wait_until_idle(third)

    events = [event for _, event in read_events(broker, events_topic)]
    assert [(event["producer_id"], event.get("repeated", False)) for event in events] == [
        (1, False),
        (1, True),
        (2, False),
    ]
    assert third.counters.lost_lines == third.counters.duplicates == 0

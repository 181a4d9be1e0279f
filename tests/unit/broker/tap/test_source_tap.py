"""What the tap marks `learning` when its broker's log is switched off and on; tests/broker/ has taps on real ones."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from broker.attribution.owners import Owners
from broker.log.log_layout import LogLine, parse_line
from broker.log.log_lines import is_produce
from broker.log.source_counters import SourceCounters
from broker.log.sources import LineBatch
from broker.tap import source_tap
from broker.tap.asking import Questions
from broker.tap.log_levels_watch import LevelsQuestion
from broker.tap.source_tap import SourceTap
from wire.heartbeat import Position, TapHeartbeat
from wire.records import ProduceEvent, Record

LINES = [parse_line(line) for line in (Path(__file__).parents[1] / "broker_lines.jsonl").read_bytes().splitlines()]
REQUEST = next(line for line in LINES if is_produce(line.message))
BATCH = next(line for line in LINES if "Updated producer 0 " in line.message)
LEARN_S = 10.0

Round = tuple[bool, list[bytes]]
"""Whether the log is off on purpose, and the lines that come."""


def appends(producer_id: int, at_s: float) -> list[bytes]:
    """Lines of a request and its batch."""
    message = BATCH.message.replace("producer 0 ", f"producer {producer_id} ")
    message = message.replace("producerId=0,", f"producerId={producer_id},")
    at_ms = BATCH.ts + round(at_s * 1000)
    lines = (
        LogLine(at_ms, BATCH.thread, each.logger, text) for each, text in ((REQUEST, REQUEST.message), (BATCH, message))
    )
    return [msgspec.json.encode(line) for line in lines]


class Rounds:
    """A fake of a log and of the switch of its level: what happens in each round of the tap, then its end."""

    kind = "file"
    position: Position | None = None
    lag, counters = 0, SourceCounters()

    def __init__(self, rounds: list[Round]) -> None:
        self.rounds, self.stop = rounds, threading.Event()
        self.streams = [("1", 1)]

    def open(self, position: Position | None, sent_up_to: Position | None) -> None:
        pass

    def close(self) -> None:
        pass

    def is_calm(self) -> bool:
        return bool(self.rounds) and self.rounds[0][0]

    def read(self) -> list[LineBatch]:
        lines = self.rounds.pop(0)[1]
        if not self.rounds:
            self.stop.set()
        return [LineBatch("1", 1, lines)] if lines else []


class Kafka:
    """A fake of the tap's topics: keeps what is written; nothing is to be read."""

    def __init__(self) -> None:
        self.events, self.heartbeats = list[ProduceEvent](), list[TapHeartbeat]()

    def output(self, config: Mapping[str, str], topic: str, version: int) -> "Kafka":
        return self

    def bindings(self, config: Mapping[str, str], owners: Owners) -> "Kafka":
        return self

    def load(self) -> list[ProduceEvent]:
        return []

    poll = load

    def send(self, record: Record, stopped: Callable[[], bool]) -> None:
        if isinstance(record, ProduceEvent):
            self.events.append(record)

    def send_events(self, stopped: Callable[[], bool]) -> None:
        pass

    def send_status(self, key: bytes, heartbeat: TapHeartbeat) -> None:
        self.heartbeats.append(heartbeat)

    def brokers(self) -> list[int]:
        return []

    def flush(self, timeout_s: float) -> int:
        return 0

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    fake = Kafka()
    monkeypatch.setattr(source_tap, "await_topic", lambda *_: None)
    monkeypatch.setattr(source_tap, "TapOutput", fake.output)
    monkeypatch.setattr(source_tap, "BindingTopic", fake.bindings)
    monkeypatch.setattr(source_tap, "_POLL_S", 0.0)
    return fake


def tap(rounds: list[Round], logging_is_on: LevelsQuestion | None = None) -> None:
    log = Rounds(rounds)
    questions = Questions(logging_is_on, is_calm=log.is_calm)
    SourceTap(log, {}, every_batch=True, learn_seconds=LEARN_S, questions=questions).run(log.stop)


def test_ids_that_may_have_come_while_the_log_was_off_are_learned_when_it_is_on_again(kafka: Kafka) -> None:
    tap(
        [
            (False, appends(1, 0)),
            (False, appends(2, 9)),
            (False, appends(3, 18)),
            # Off: a line that comes nevertheless says nothing of those that do not.
            (True, appends(4, 21)),
            (True, appends(5, 28)),
            (True, appends(6, 32)),
            (True, []),
            (False, appends(7, 35)),
            (False, appends(8, 44)),
            (False, appends(9, 46)),
        ]
    )

    learned = {each.producer_id: each.learning for each in kafka.events}
    assert learned == {1: True, 2: True, 3: False, 4: True, 5: True, 6: True, 7: True, 8: True, 9: False}


def test_its_heartbeats_say_at_once_that_the_log_is_off_or_on_again(kafka: Kafka) -> None:
    tap([(False, []), (True, []), (True, []), (False, []), (False, [])])

    assert [each.calm for each in kafka.heartbeats if not each.stopped] == [False, True, False]


def test_a_broker_whose_log_is_off_on_purpose_is_not_asked_whether_it_is_on(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a broker that is asked with each heartbeat.
    monkeypatch.setattr(source_tap, "SILENT_S", 0.0)

    tap([(False, []), (True, []), (False, [])], lambda _: False)

    assert [each.logging for each in kafka.heartbeats if not each.stopped] == [False, None, False]

from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.tap.heartbeats import Heartbeats
from broker.tap.watches import Watches
from tests.kits.class_lines_kit import NOON_MS, ClassLines
from wire.broker_lines import decode_line
from wire.heartbeat import FilePosition, Position, TapHeartbeat


class Tap:
    """A fake of what a tap reads and writes, with its clock."""

    def __init__(self) -> None:
        self.now_ms, self.up, self.said = NOON_MS, [1], list[str]()
        self.position: Position | None = FilePosition(1, 0)
        self.lag = 0
        self.sent: list[TapHeartbeat] = []
        self.watches = Watches(learn_ms=0, own_topic="events")
        self.watches.of(1)
        self.beats = Heartbeats("file", lambda: self.now_ms / 1000, None, self.said.append)

    def problem(self, after_s: float = 0) -> str | None:
        self.now_ms += round(after_s * 1000)
        self.beats.send(cast("Any", self), cast("Any", self), self.watches, {}, stopped=False)
        return self.sent[-1].problem

    def reads(self, line: Callable[[ClassLines], bytes]) -> None:
        self.watches.of(1).take(decode_line(line(ClassLines(at_ms=self.now_ms - 1))))

    def brokers(self) -> list[int]:
        return self.up

    def send_status(self, key: bytes, heartbeat: TapHeartbeat) -> None:
        self.sent.append(heartbeat)


def test_a_class_that_is_silent_for_a_minute_is_a_problem_and_is_said_once_until_a_line_comes() -> None:
    tap = Tap()

    assert tap.problem(60) is None
    problems = [tap.problem(10), tap.problem(10)]
    tap.reads(ClassLines.start)
    assert tap.problem() is None
    problems.append(tap.problem(61))

    (text,) = set(problems)
    assert text is not None
    assert "check that it is loaded" in text
    assert tap.said == [f"broker 1: {text}"] * 2


@pytest.mark.parametrize("reason", ["down", "not told", "behind", "no file"])
def test_a_silence_with_another_reason_is_none(reason: str) -> None:
    tap = Tap()
    if reason == "down":
        tap.up = [2]
    elif reason == "not told":
        tap.up = []
    elif reason == "behind":
        tap.lag = 5
    else:
        tap.position = None

    assert tap.problem(300) is None
    assert tap.said == []


def test_reports_of_the_class_itself_take_precedence() -> None:
    tap = Tap()
    tap.reads(lambda lines: lines.start(problem="Kafka 9.9.9 is not known"))

    assert tap.problem(300) == "Kafka 9.9.9 is not known"

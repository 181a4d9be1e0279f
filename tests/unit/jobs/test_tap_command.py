"""How `pid-quota tap --armed-by-growth` joins the tap and the switch of its log."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.tap.tap_counters import TapCounters
from jobs.tap import command
from tests.unit.jobs.command_kit import PidQuota

SERVERS = ("--bootstrap-servers", "broker:9092")


class Switch:
    """A fake of `ArmedLog`."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.is_calm = False
        self.running_by: threading.Event | None = None

    def make(self, _settings: object, *arguments: object, **_: object) -> "Switch":
        self.made.append(arguments)
        return self

    @contextmanager
    def running(self, stop: threading.Event) -> Iterator[None]:
        self.running_by = stop
        yield
        self.running_by = None


class Tap:
    """A fake of `SourceTap` that runs for a moment, calm, and for another, not calm."""

    counters = TapCounters()

    def __init__(self, switch: Switch) -> None:
        self.switch, self.was_calm, self.was_switched = switch, list[bool](), False

    def make(self, *_: object, questions: Any, **_options: object) -> "Tap":
        self.questions = questions
        return self

    def run(self, stop: threading.Event) -> None:
        self.was_switched = self.switch.running_by is stop
        for self.switch.is_calm in (True, False):
            self.was_calm.append(self.questions.is_calm())


@pytest.fixture
def tap(monkeypatch: pytest.MonkeyPatch) -> Tap:
    fake = Tap(Switch())
    monkeypatch.setattr(command, "ArmedLog", fake.switch.make)
    monkeypatch.setattr(command, "SourceTap", fake.make)
    monkeypatch.setattr(command, "ensure_topics", lambda _settings: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return fake


def test_a_tap_knows_when_its_log_is_off_on_purpose(pid_quota: PidQuota, tap: Tap, tmp_path: Path) -> None:
    position = tmp_path / "position"
    log = ("--log-file", tmp_path / "log", "--broker-id", 3, "--position-file", position)

    code, _, _ = pid_quota("tap", *SERVERS, *log, "--armed-by-growth", "--arm-at", 0.5)

    assert code == 0
    # Beside the position, not in its place.
    assert tap.switch.made == [(3, position.with_name("position.armed"), 0.5)]
    assert (tap.was_switched, tap.was_calm, tap.questions.are_others_calm) == (True, [True, False], True)
    assert tap.switch.running_by is None


def test_a_tap_that_is_not_armed_leaves_its_log_alone(pid_quota: PidQuota, tap: Tap, tmp_path: Path) -> None:
    code, _, _ = pid_quota("tap", *SERVERS, "--log-file", tmp_path / "log", "--broker-id", 3)

    assert (code, tap.switch.made, tap.was_calm) == (0, [], [False, False])
    assert not tap.questions.are_others_calm


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_that_is_not_there_yet_is_said(pid_quota: PidQuota, tap: Tap, tmp_path: Path, is_there: bool) -> None:
    log = tmp_path / "log"
    if is_there:
        log.touch()

    _, _, error = pid_quota("tap", *SERVERS, "--log-file", log, "--broker-id", 3)

    assert ("nothing is seen until broker 3 writes it" in error) == (not is_there)


@pytest.mark.parametrize(
    "source",
    [("--log-file", "log"), ("--from-topic", "lines", "--position-file", "position")],
    ids=["without a position file", "from a topic"],
)
def test_an_armed_tap_needs_the_file_of_its_broker_and_one_to_keep_what_it_switched(
    pid_quota: PidQuota, tap: Tap, source: tuple[str, ...]
) -> None:
    code, _, error = pid_quota("tap", *SERVERS, *source, "--broker-id", 3, "--armed-by-growth")

    assert code == 2
    assert "needs --log-file, and --position-file" in " ".join(error.split())
    assert (tap.switch.made, tap.was_calm) == ([], [])

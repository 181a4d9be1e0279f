"""The options of `pid-quota tap`, and the output of `pid-quota tap status`."""

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.tap.source_tap import TapCounters
from jobs.tap import command, status
from tests.kits.class_lines_kit import NOON_MS
from tests.kits.command_kit import PidQuota
from wire.heartbeat import FilePosition, TapHeartbeat

SERVERS = ("--bootstrap-servers", "broker:9092")


class Tap:
    """A fake of `SourceTap`."""

    counters = TapCounters(events=4)

    def make(self, source: object, *_: object, **options: Any) -> "Tap":
        self.source, self.options = source, options
        return self

    def run(self, stop: threading.Event) -> None:
        self.was_run = not stop.is_set()


@pytest.fixture
def tap(monkeypatch: pytest.MonkeyPatch) -> Tap:
    fake = Tap()
    monkeypatch.setattr(command, "SourceTap", fake.make)
    monkeypatch.setattr(command, "ensure_topics", lambda _settings: None)
    monkeypatch.setattr(command, "missing_rights", lambda *_: [])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return fake


def test_a_tap_follows_the_file_of_its_broker_and_asks_by_default(
    pid_quota: PidQuota, tap: Tap, tmp_path: Path
) -> None:
    log = ("--log-file", tmp_path / "log", "--broker-id", 3, "--position-file", tmp_path / "position")

    code, out, _ = pid_quota("tap", *SERVERS, *log)

    assert (code, tap.was_run, tap.options["ask"] is not None) == (0, True, True)
    assert repr(tap.source) == f"FileSource({str(tmp_path / 'log')!r}, broker_id=3)"
    assert tap.options["position_file"] == tmp_path / "position"
    assert "events 4" in out
    pid_quota("tap", *SERVERS, *log, "--no-asking")
    assert tap.options["ask"] is None


@pytest.mark.parametrize("is_there", [True, False])
def test_a_missing_file_is_reported(pid_quota: PidQuota, tap: Tap, tmp_path: Path, is_there: bool) -> None:
    log = tmp_path / "log"
    if is_there:
        log.touch()

    _, _, error = pid_quota("tap", *SERVERS, "--log-file", log, "--broker-id", 3)

    assert ("the tap waits until the class in broker 3 writes it" in error) == (not is_there)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "every running broker is watched"),
        ({"position": None}, "broker 1: the file that its tap follows does not exist"),
        ({"problem": "Kafka 9.9.9 is not known"}, "broker 1: Kafka 9.9.9 is not known"),
        ({"counters": {"dropped_lines": 2}}, "broker 1: its class dropped 2 lines"),
        ({"counters": {"lost_lines": 1}}, "broker 1: 1 line never arrived"),
        (
            {"counters": {"bad_lines": 3}, "bad_samples": ["a", "b\x1b[2J"]},
            "broker 1: 3 lines of its tap could not be read, such as 'b\\x1b[2J'",
        ),
    ],
)
def test_status_says_in_one_line_what_is_wrong_with_a_broker(
    pid_quota: PidQuota, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], message: str
) -> None:
    beat = {
        "timestamp_ms": NOON_MS,
        "broker_id": 1,
        "host": "h",
        "tap_id": "t",
        "source": "file",
        "counters": {},
        "position": FilePosition(1, 0),
        "behind_bytes": 0,
        "lag_records": None,
        "newest_line_ms": NOON_MS,
        "stopped": False,
        "class_version": "0.3.0",
        "kafka_version": "4.3.1",
    }
    monkeypatch.setattr(status, "running_brokers", lambda _: [1])
    monkeypatch.setattr(status, "read_heartbeats", lambda _: {1: TapHeartbeat(**{**beat, **values})})
    monkeypatch.setattr("time.time", lambda: NOON_MS / 1000)

    code, out, _ = pid_quota("tap", "status", *SERVERS)

    assert code == (1 if values.keys() & {"position", "problem"} else 0)
    assert message in out
    assert "4.3.1" in out

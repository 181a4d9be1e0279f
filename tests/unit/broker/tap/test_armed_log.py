"""In which order a broker's log is switched, and what failures leave; tests/broker/ has the same on a real broker."""

import json
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.logging_levels import BROKER_LOGGERS, MARKER
from broker.cluster.producers_admin import PARTITIONS_PER_REQUEST, REQUESTS_PER_SECOND
from broker.errors import BrokerUnreachableError, ClusterRequestError, TapError
from broker.tap import armed_log
from broker.tap.armed_log import CALM_S, COUNT_S
from broker.tap.arming import BLIND_S, WINDOW_S
from tests.unit.broker.tap.armed_log_kit import BROKER_ID, OFF, ON, Broker, Tap, Time

LIMIT_S = 60.0
FOUND = dict(zip(BROKER_LOGGERS, ("WARN", "DEBUG"), strict=True))
LOOK_S = 11.0
"""Within which it looks whether the log is as it should be."""


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    fake = Broker(Time())
    monkeypatch.setattr(armed_log, "ProducersAdmin", lambda _settings: fake)
    return fake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "position.armed"


def test_a_flood_switches_it_on_and_calm_puts_back_what_was_found(broker: Broker, file: Path) -> None:
    broker.levels.update(FOUND)
    tap, seen = Tap(broker, file).begun(), list[tuple[Mapping[str, str], Any, bool]]()
    broker.on_set = lambda levels: seen.append((dict(levels), json.loads(file.read_bytes()), tap.log.is_calm))
    assert tap.log.is_calm

    broker.is_flooded = True
    tap.runs(5)
    tap.runs_until_calm()

    # Each time, the file tells the next run of it, and the tap takes what comes for lines after a gap.
    kept = {"broker_id": BROKER_ID, "levels": FOUND}
    assert seen == [(ON, kept, False), (FOUND, kept, False)]
    assert (tap.log.is_calm, file.exists(), broker.log) == (True, False, FOUND)
    assert [each.partition("log is ")[2][:3] for each in tap.said] == ["swi", "off"]


def test_a_flood_is_noticed_within_seconds_whenever_it_begins(broker: Broker, file: Path) -> None:
    tap = Tap(broker, file).begun()
    for _ in range(10):
        broker.is_flooded = False
        tap.runs(CALM_S + WINDOW_S + LOOK_S + 1)
        assert broker.log == OFF

        broker.is_flooded = True
        tap.runs(3)
        assert broker.log == ON


def test_it_takes_fewer_ids_while_each_makes_a_line(broker: Broker, file: Path) -> None:
    tap = Tap(broker, file).begun()
    tap.runs(100)
    calm = len(broker.ids_asked_at)
    broker.is_flooded = True
    tap.runs(5)
    before = len(broker.ids_asked_at)

    tap.runs(100)

    assert calm == pytest.approx(100, rel=0.1)
    assert len(broker.ids_asked_at) - before == pytest.approx(10, abs=1)


FALLEN = pytest.mark.parametrize("fallen", [BROKER_LOGGERS, BROKER_LOGGERS[:1], BROKER_LOGGERS[1:]])


@FALLEN
def test_a_log_that_falls_silent_while_it_is_needed_is_set_again(
    broker: Broker, file: Path, fallen: Sequence[str]
) -> None:
    broker.levels.update(FOUND)
    tap = Tap(broker, file).begun_in_a_flood()

    broker.levels.update(dict.fromkeys(fallen, "INFO"))
    tap.runs(LOOK_S)
    assert broker.log == ON

    # What was set meanwhile is put back, and what was found of the rest.
    tap.runs_until_calm()
    assert broker.log == {**FOUND, **dict.fromkeys(fallen, "INFO")}


def test_ids_that_only_partitions_know_switch_it_on(broker: Broker, file: Path) -> None:
    tap = Tap(broker, file).begun()
    tap.runs(10)
    broker.held.extend(range(10**12, 10**12 + 200))

    tap.runs(COUNT_S)

    assert broker.log == ON


def test_a_count_takes_half_of_the_time_at_most_and_a_minute_lies_between_short_ones(
    broker: Broker, file: Path
) -> None:
    tap, requests = Tap(broker, file).begun(), 400
    tap.runs(3.5 * COUNT_S)
    short = list(broker.counted_at)
    broker.partitions = requests * PARTITIONS_PER_REQUEST
    tap.runs(600)

    assert [later - each for each, later in pairwise(short)] == pytest.approx([COUNT_S] * 3, abs=2)
    begun = broker.counted_at[-2:]
    assert begun[1] - begun[0] == pytest.approx(2 * requests / REQUESTS_PER_SECOND, abs=2)


def test_a_flood_during_a_count_switches_it_on_before_the_count_ends(broker: Broker, file: Path) -> None:
    broker.partitions = 100 * PARTITIONS_PER_REQUEST
    broker.on_count = lambda: setattr(broker, "is_flooded", True)

    Tap(broker, file).begun().runs(60)

    assert broker.calls.index("set") < broker.calls.index("producers") + 20
    assert broker.calls.count("producers") >= 100


def test_a_count_that_is_refused_is_tried_again_in_a_minute_and_floods_are_noticed_without(
    broker: Broker, file: Path
) -> None:
    broker.error, broker.failing = ClusterRequestError("grant READ"), {"producers"}
    tap = Tap(broker, file).begun()

    tap.runs(5 * COUNT_S)
    assert len(broker.counted_at) == 5
    assert ["grant READ" in each for each in tap.said] == [True]
    broker.is_flooded = True
    tap.runs(5)

    assert broker.log == ON


@pytest.mark.parametrize("refuses", [True, False])
def test_a_broker_that_gives_no_id_is_logged_and_counted(broker: Broker, file: Path, refuses: bool) -> None:
    tap = Tap(broker, file).begun()
    tap.runs(COUNT_S - 5)
    broker.gives_ids = False
    if refuses:
        broker.error, broker.failing = ClusterRequestError("grant WRITE"), {"id"}

    tap.runs(BLIND_S - 5)
    assert (broker.log, len(broker.counted_at)) == (OFF, 2)
    tap.runs(10)
    assert broker.log == ON
    assert "grant WRITE" in tap.said[0] or not refuses


def test_a_broker_that_is_away_is_said_once_and_watched_when_it_is_back(broker: Broker, file: Path) -> None:
    tap = Tap(broker, file).begun()
    broker.error = BrokerUnreachableError("no broker answers")
    tap.runs(10)

    broker.error, broker.is_flooded = None, True
    tap.runs(5)

    assert tap.log.is_calm is False
    assert ["(no broker answers): trying again" in each for each in tap.said] == [True, False]


def test_a_watch_that_fails_ends_the_tap_instead_of_leaving_it_blind(broker: Broker, file: Path) -> None:
    tap = Tap(broker, file).begun()
    broker.error = RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        tap.runs(5)

    with pytest.raises(TapError, match=r"broker 1 is no longer switched .*restart the tap"):
        assert tap.log.is_calm


# What others do to the log


def test_what_others_switch_is_left_and_heeded(broker: Broker, file: Path) -> None:
    tap = Tap(broker, file).begun()

    for levels, is_calm in ((ON, False), (OFF, True), (ON, False)):
        broker.levels.update(levels)
        tap.runs(LOOK_S)
        assert tap.log.is_calm == is_calm
    tap.runs(2 * CALM_S)
    tap.log.end()

    assert (broker.log, "set" in broker.calls) == (ON, False)


def test_a_log_that_was_on_before_stays_on(broker: Broker, file: Path) -> None:
    broker.levels.update(ON)
    tap = Tap(broker, file).begun()
    assert not tap.log.is_calm

    tap.runs(2 * CALM_S)
    tap.log.end()

    assert (broker.log, "set" in broker.calls) == (ON, False)
    assert ["was not switched on by this tap" in each for each in tap.said] == [True]


def test_a_log_that_fell_silent_as_it_was_no_longer_needed_is_not_ours_when_others_switch_it_on(
    broker: Broker, file: Path
) -> None:
    tap = Tap(broker, file).begun_in_a_flood()
    broker.is_flooded = False
    tap.runs(CALM_S)
    # When the broker restarts over the end of the calm time: without our levels.
    broker.error = BrokerUnreachableError("restarting")
    tap.runs(WINDOW_S + 5)
    broker.error = None
    broker.levels.update(OFF)
    tap.runs(LOOK_S)
    assert (tap.log.is_calm, file.exists()) == (True, False)

    broker.levels.update(ON)
    tap.runs(2 * CALM_S)
    tap.log.end()

    assert broker.log == ON


# What a killed run has switched on


def test_what_a_killed_run_has_switched_on_goes_off_after_the_calm_time(broker: Broker, file: Path) -> None:
    broker.levels.update(FOUND)
    Tap(broker, file).begun_in_a_flood()
    broker.is_flooded = False

    tap = Tap(broker, file).begun()
    tap.runs(CALM_S - 5)
    assert (broker.log, tap.log.is_calm) == (ON, False)
    tap.runs(10)

    assert (broker.log, tap.log.is_calm, file.exists()) == (FOUND, True, False)


def test_levels_of_loggers_that_are_not_ours_are_left(broker: Broker, file: Path) -> None:
    file.write_text(json.dumps({"broker_id": BROKER_ID, "levels": {**FOUND, "root": "OFF"}}))
    broker.levels.update(ON)

    Tap(broker, file).begun().log.end()

    assert broker.levels == {MARKER: "INFO", **FOUND}


@pytest.mark.parametrize(
    "kept",
    [
        json.dumps({"broker_id": BROKER_ID + 1, "levels": OFF}).encode(),
        json.dumps({"broker_id": BROKER_ID + 1, "levels": OFF}).encode()[:-9],
        json.dumps({"broker_id": "one", "levels": []}).encode(),
        b"",
        b"\xff",
    ],
    ids=["another broker's", "torn", "of other types", "empty", "no text"],
)
def test_a_file_that_does_not_tell_of_this_broker_makes_no_log_ours(broker: Broker, file: Path, kept: bytes) -> None:
    file.write_bytes(kept)
    broker.levels.update(ON)
    tap = Tap(broker, file).begun()

    tap.runs(2 * CALM_S)

    assert broker.log == ON


# The end


def test_a_tap_that_ends_puts_back_what_it_found(broker: Broker, file: Path) -> None:
    broker.levels.update(FOUND)
    broker.is_flooded, is_asked = True, threading.Event()
    broker.on_set = lambda _: is_asked.set()

    with Tap(broker, file).log.running(broker.time):
        assert is_asked.wait(LIMIT_S)

    assert broker.time.is_set()
    assert (broker.log, file.exists()) == (FOUND, False)


def test_a_tap_that_ends_waits_for_the_request_under_way(broker: Broker, file: Path) -> None:
    tap, before = Tap(broker, file), set(threading.enumerate())
    broker.is_flooded, is_asked = True, threading.Event()

    def slowly(_: object) -> None:
        is_asked.set()
        threading.Event().wait(0.05)

    broker.on_set = slowly
    with tap.log.running(broker.time):
        assert is_asked.wait(LIMIT_S)

    assert set(threading.enumerate()) <= before
    assert broker.log == OFF


@FALLEN
def test_what_others_have_switched_off_is_left_so_at_the_end(broker: Broker, file: Path, fallen: Sequence[str]) -> None:
    broker.levels.update(FOUND)
    tap = Tap(broker, file).begun_in_a_flood()
    broker.levels.update(dict.fromkeys(fallen, "INFO"))
    touched = set[str]()
    broker.on_set = touched.update

    tap.log.end()

    assert touched == set(BROKER_LOGGERS) - set(fallen)
    assert (broker.log, file.exists()) == ({**FOUND, **dict.fromkeys(fallen, "INFO")}, False)


def test_a_broker_that_is_away_at_the_end_is_left_to_the_next_run(broker: Broker, file: Path) -> None:
    tap = Tap(broker, file).begun_in_a_flood()
    broker.error = BrokerUnreachableError("no broker answers")

    tap.log.end()

    assert "may stay on until the tap's next run (no broker answers)" in tap.said[-1]
    assert file.exists()


def test_a_file_that_cannot_be_written_keeps_no_log_off(broker: Broker, tmp_path: Path) -> None:
    tap = Tap(broker, tmp_path / "missing" / "position.armed").begun_in_a_flood()

    assert "can't keep in" in tap.said[0]
    tap.log.end()
    assert broker.log == OFF


# The beginning


@pytest.mark.parametrize("refused", ["look", "try", "id"])
def test_a_missing_right_is_named_before_anything_is_switched(broker: Broker, file: Path, refused: str) -> None:
    broker.error, broker.failing = ClusterRequestError("refused"), {refused}

    with pytest.raises(TapError, match="DESCRIBE_CONFIGS and ALTER_CONFIGS on the cluster, and WRITE on the tap's"):
        Tap(broker, file).begun()

    assert "set" not in broker.calls


def test_a_broker_without_our_log_settings_is_refused(broker: Broker, file: Path) -> None:
    del broker.levels[MARKER]

    with pytest.raises(TapError, match="would flood"):
        Tap(broker, file).begun()

    assert "set" not in broker.calls

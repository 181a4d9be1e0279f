import msgspec
import pytest
from msgspec.structs import replace

from broker.tap.tap_status import WatchState, watch_states
from wire.heartbeat import FilePosition, Position, TapHeartbeat, TopicPosition

BEGIN = FilePosition(1, 0)


def heartbeat(broker_id: int, at_ms: int, *, stopped: bool = False) -> TapHeartbeat:
    return TapHeartbeat(at_ms, broker_id, "host", "tap", "file", {}, BEGIN, 0, None, at_ms, stopped)


def test_each_running_broker_is_watched_or_a_blind_spot() -> None:
    beats = {1: heartbeat(1, 100_000), 2: heartbeat(2, 39_000), 3: heartbeat(3, 100_000, stopped=True)}

    watches = watch_states([1, 2, 3, 4], beats, now_ms=100_000, stale_s=60)

    assert [(watch.broker_id, watch.watch, watch.is_blind_spot) for watch in watches] == [
        (1, WatchState.WATCHED, False),
        (2, WatchState.STALE, True),
        (3, WatchState.STOPPED, True),
        (4, WatchState.NEVER, True),
    ]


def test_a_tap_that_stopped_long_ago_is_still_one_that_stopped() -> None:
    (found,) = watch_states([1], {1: heartbeat(1, 0, stopped=True)}, now_ms=10**9, stale_s=60)

    assert (found.watch, found.is_blind_spot) == (WatchState.STOPPED, True)


def test_a_tap_whose_class_sees_nothing_is_a_blind_spot() -> None:
    (found,) = watch_states(
        [1], {1: replace(heartbeat(1, 0), problem="Kafka 9.9.9 is not known")}, now_ms=0, stale_s=60
    )

    assert (found.watch, found.is_blind_spot) == (WatchState.BLIND, True)


def test_a_tap_whose_file_is_not_there_watches_nothing() -> None:
    mute, of_topic = replace(heartbeat(1, 0), position=None), replace(heartbeat(2, 0), position=None, source="topic")

    watches = watch_states([1, 2], {1: mute, 2: of_topic}, now_ms=0, stale_s=60)

    assert [(each.watch, each.is_blind_spot) for each in watches] == [
        (WatchState.NO_FILE, True),
        (WatchState.WATCHED, False),
    ]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_broker_that_does_not_run_is_no_blind_spot(stopped: bool) -> None:
    (watch,) = watch_states([], {5: heartbeat(5, 0, stopped=stopped)}, now_ms=10**9, stale_s=60)

    assert (watch.alive, watch.is_blind_spot) == (False, False)


@pytest.mark.parametrize("position", [None, FilePosition(1, 2), TopicPosition("logs", {0: 5})])
def test_a_heartbeat_survives_its_encoding(position: Position | None) -> None:
    beat = replace(heartbeat(1, 5), position=position, problem="x", class_version="1")

    assert msgspec.json.decode(msgspec.json.encode(beat), type=TapHeartbeat) == beat


def test_the_clock_of_a_tap_may_be_ahead() -> None:
    (watch,) = watch_states([1], {1: heartbeat(1, 5000)}, now_ms=0, stale_s=60)

    assert (watch.watch, watch.age_s) == (WatchState.WATCHED, 0.0)

"""Which events of a tap repeat what it has sent in the same tick."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.attribution import deduplicator
from broker.attribution.deduplicator import WAITING, Deduplicator, How
from broker.attribution.ticks import SECONDS, Ticks
from quota.timeline import Timeline

NOW_MS = 1_790_000_000_000
TICK_MS = 10_000
APP: How = ("app", 1, False, None)


@pytest.fixture
def repeats() -> Deduplicator:
    repeats = Deduplicator()
    repeats.use(Ticks.of([(900_000, 90)]))
    return repeats


def left_out(repeats: Deduplicator, *events: tuple[int, str]) -> list[bool]:
    """Of events of one PID: milliseconds since now, and user."""
    return [repeats.is_repeat(NOW_MS + after_ms, 7, user, APP) for after_ms, user in events]


@given(timestamp_ms=st.integers(0, 2**45), quantum_ms=st.integers(90, 10**7))
def test_pieces_are_ticks_of_each_stream_and_a_minute_at_most(timestamp_ms: int, quantum_ms: int) -> None:
    lines = [Timeline(quantum_ms), Timeline(15_000)]
    begin_ms, end_ms = Ticks.of([(each.quantum_ms, 90) for each in lines]).piece_of(timestamp_ms)

    assert begin_ms <= timestamp_ms < end_ms <= begin_ms + 60_000
    for line in lines:
        assert line.tick(begin_ms) == line.tick(timestamp_ms) == line.tick(end_ms - 1)
    only = lines[0]
    at = only.tick(timestamp_ms)
    begin_ms, end_ms = Ticks.of([(quantum_ms, 90)]).piece_of(timestamp_ms)
    minute_ms = timestamp_ms // 60_000 * 60_000
    assert begin_ms == max(only.tick_start_ms(at), minute_ms)
    assert end_ms == min(only.tick_start_ms(at + 1), minute_ms + 60_000)


def test_a_repeat_is_left_out_until_the_tick_ends(repeats: Deduplicator) -> None:
    assert left_out(repeats, (0, "a"), (9_999, "a"), (10_000, "a"), (10_001, "a")) == [False, True, False, True]


def test_without_a_known_stream_a_repeat_is_left_out_within_a_second() -> None:
    repeats = Deduplicator()
    repeats.use(Ticks.of([]))
    assert Ticks.of([]) == SECONDS
    assert left_out(repeats, (0, "a"), (999, "a"), (1000, "a")) == [False, True, False]


@pytest.mark.parametrize("other", [("other", 1, False, None), ("app", 2, False, None), ("app", 1, True, None)])
def test_only_the_same_kind_as_the_event_before_is_a_repeat(repeats: Deduplicator, other: How) -> None:
    found = [repeats.is_repeat(NOW_MS, 7, "a", how) for how in (APP, other, APP, APP)]
    assert found == [False, False, False, True]


def test_of_an_older_tick_repeats_are_known_until_the_principal_s_next_event_of_the_newest(
    repeats: Deduplicator,
) -> None:
    assert left_out(repeats, (0, "a"), (TICK_MS, "b")) == [False, False]
    assert left_out(repeats, (1, "a")) == [True], "b's time says nothing of a's"

    assert left_out(repeats, (TICK_MS, "a"), (2, "a"), (3, "a")) == [False, False, True]
    assert left_out(repeats, (TICK_MS, "a"), (4, "a")) == [True, True], "nothing was sent"


@pytest.mark.parametrize(("older_ms", "is_repeat"), [(TICK_MS, True), (60_000, True), (60_001, False)])
def test_an_event_that_may_be_late_ends_what_is_known(repeats: Deduplicator, older_ms: int, *, is_repeat: bool) -> None:
    assert left_out(repeats, (0, "a"), (0, "b"), (-older_ms, "a")) == [False] * 3
    assert left_out(repeats, (0, "a"), (0, "b")) == [is_repeat, True]


def test_what_is_sent_by_another_way_ends_what_is_known_of_its_principal(repeats: Deduplicator) -> None:
    left_out(repeats, (0, "a"), (0, "b"), (0, WAITING))
    repeats.forget("a")
    repeats.forget_waiting(7)
    assert left_out(repeats, (0, "a"), (0, "b"), (0, WAITING)) == [False, True, False]


def test_what_is_sent_by_another_way_ends_what_is_known_of_the_tick_before_too(repeats: Deduplicator) -> None:
    left_out(repeats, (0, "a"), (0, "b"), (0, WAITING), (TICK_MS, "c"))
    repeats.forget("a")
    repeats.forget_waiting(7)
    assert left_out(repeats, (1, "a"), (1, "b"), (1, WAITING)) == [False, True, False]


def test_other_ticks_begin_with_nothing_known(repeats: Deduplicator) -> None:
    left_out(repeats, (0, "a"))
    repeats.use(Ticks.of([(900_000, 90)]))
    assert left_out(repeats, (0, "a")) == [True]
    repeats.use(SECONDS)
    assert left_out(repeats, (0, "a")) == [False]


def test_a_flood_forgets_what_it_repeats_and_not_more_than_it_may(
    repeats: Deduplicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplicator, "MAX_REMEMBERED", 100)
    flood = [repeats.is_repeat(NOW_MS, producer_id, "mallory", APP) for producer_id in range(100)]
    assert not any(flood)
    assert repeats.is_repeat(NOW_MS, 0, "mallory", APP)

    repeats.is_repeat(NOW_MS, 100, "mallory", APP)
    assert not repeats.is_repeat(NOW_MS, 0, "mallory", APP)


@pytest.mark.parametrize("older_ms", [[0, 10_000], [10_000, 0]])
def test_events_of_two_older_ticks_are_no_repeats(repeats: Deduplicator, older_ms: list[int]) -> None:
    # given a newer tick, of another broker's lines
    left_out(repeats, (20_000, "b"))

    # when lines of two older ticks follow, then both are sent
    assert left_out(repeats, *((after_ms, "a") for after_ms in older_ms)) == [False, False]

import itertools
import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.attribution.known_ids import KnownIds
from broker.tap.arming import BLIND_S, WINDOW_S, Arming, Growth, Step, given_at_least, next_step
from lifecycle.producer_id_blocks import BLOCK_LENGTH

CALM_S = 600.0


def held(*ids: int) -> KnownIds:
    return KnownIds({}, array("q", ids))


@given(
    gifts=st.lists(st.integers(0, 2500), max_size=30),
    elsewhere=st.lists(st.integers(1, 5), min_size=1),
    restarts=st.sets(st.integers(0, 30)),
)
def test_a_brokers_gifts_are_never_overrated_and_exact_within_a_block(
    gifts: list[int], elsewhere: list[int], restarts: set[int]
) -> None:
    # Given a broker that gives ids of its blocks in order; other brokers get those between.
    blocks = itertools.accumulate(itertools.cycle(elsewhere), initial=0)
    at, end, before = 0, 0, None

    def take(restarted: bool = False) -> int:
        nonlocal at, end
        if at == end or restarted:
            at = next(blocks) * BLOCK_LENGTH
            end = at + BLOCK_LENGTH
        at += 1
        return at - 1

    for turn, gift in enumerate(gifts):
        # When it gives some to clients, and one to us.
        for _ in range(gift):
            take()
        now = take(turn in restarts)
        # Then what is made of the two that we got is no more than it gave.
        if before is not None:
            told = given_at_least(before, now)
            assert 0 <= told <= gift
            if before // BLOCK_LENGTH == now // BLOCK_LENGTH:
                assert told == gift
        before = now


@given(rates=st.lists(st.tuples(st.floats(0.1, 500), st.floats(0, 3)), max_size=50))
def test_the_log_is_needed_while_ids_come_fast_and_for_the_calm_time_after(rates: list[tuple[float, float]]) -> None:
    arming, now_s, grew_s = Arming(1.0, CALM_S), 0.0, -math.inf
    for pause_s, rate in rates:
        now_s += pause_s
        grew_s = now_s if rate > 1.0 else grew_s
        assert arming.is_needed(rate, now_s) == (now_s - grew_s < CALM_S)


@pytest.mark.parametrize(
    ("rate", "words"),
    [(math.inf, "has not told"), (1.5, "come at 1.5/s"), (1.0, "came at more than 1/s within the last 600 s")],
)
def test_why_the_log_is_needed_is_told_with_figures(rate: float, words: str) -> None:
    assert words in Arming(1.0, CALM_S).reason(rate)


def test_the_calm_time_is_over_at_its_end() -> None:
    arming = Arming(1.0, CALM_S, 0.0)

    assert [arming.is_needed(0.0, now_s) for now_s in (CALM_S - 0.5, CALM_S)] == [True, False]


@given(needed=st.booleans(), is_on=st.booleans(), is_ours=st.booleans())
def test_a_needed_log_is_on_and_only_ours_is_switched_off(needed: bool, is_on: bool, is_ours: bool) -> None:
    step = next_step(needed=needed, is_on=is_on, is_ours=is_ours)

    assert (step is Step.SWITCH_ON) == (needed and not is_on)
    assert (step is Step.SWITCH_OFF) == (is_ours and not needed)


def test_our_own_ids_are_no_growth() -> None:
    growth = Growth(0.0)
    for second in range(100):
        growth.next_id(5000 + second, float(second))

    assert growth.rate(100.0) == 0


def test_ids_given_to_clients_count_for_the_window() -> None:
    growth = Growth(0.0)
    growth.next_id(5000, 0.0)
    growth.next_id(5301, 1.0)

    assert growth.rate(2.0) == pytest.approx(300 / WINDOW_S)
    growth.next_id(5302, 2.0)
    assert growth.rate(1.0 + WINDOW_S) == 0


def test_a_broker_that_gives_smaller_ids_than_before_has_given_what_it_gave_since() -> None:
    # Its cluster has lost its metadata, and begins anew.
    assert given_at_least(BLOCK_LENGTH + 9, BLOCK_LENGTH + 3) == 3


def test_ids_that_no_broker_gave_count_once_they_are_held() -> None:
    growth, rates = Growth(0.0), list[float]()

    # From count to count: as many have expired as have come; one has come; none has.
    counts = held(1, 2, 3), held(1, 10**12, 10**13), held(1, 5, 10**12), held(5)
    for number, ids in enumerate(counts):
        growth.held(ids, 20.0 * number)
        growth.next_id(5000 + number, 20.0 * number)
        rates.append(growth.rate(20.0 * number))

    assert rates == pytest.approx([0, 2 / 20, 1 / 20, 0])


def test_two_counts_at_one_time_are_taken_for_a_second_apart() -> None:
    growth = Growth(0.0)
    for ids in (held(1), held(1, 2, 3)):
        growth.held(ids, 0.0)

    assert growth.rate(0.0) == 2


def test_the_faster_measure_counts_since_ids_may_be_in_both() -> None:
    growth = Growth(0.0)
    growth.held(held(), 0.0)
    growth.next_id(5000, 0.0)
    growth.held(held(*range(5001, 5061)), 20.0)
    growth.next_id(5061, 20.0)
    assert growth.rate(20.0) == pytest.approx(max(60 / 20, 60 / WINDOW_S))

    growth.next_id(5242, 20.0)
    assert growth.rate(20.0) == pytest.approx(240 / WINDOW_S)


def test_a_broker_that_does_not_tell_counts_as_growing() -> None:
    growth = Growth(0.0)

    assert growth.rate(BLIND_S) == 0
    assert growth.rate(BLIND_S + 1) == math.inf

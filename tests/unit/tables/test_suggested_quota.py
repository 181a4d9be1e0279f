"""Quotas suggested from history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.allowance import Allowance
from tables.query.suggested_quota import (
    HEADROOM,
    PERCENTILE,
    Excess,
    excess,
    rounded_up,
    suggested_burst,
    suggested_rate,
    windows_with_peaks_once,
)

COUNTS = st.lists(st.integers(0, 10**7), min_size=1, max_size=200)


@given(counts=COUNTS)
def test_the_windows_of_the_percentile_fit_with_headroom(counts: list[int]) -> None:
    rate = suggested_rate(counts)

    fitting = sum(count * HEADROOM <= rate for count in counts)
    assert fitting >= len(counts) * PERCENTILE / 100


@given(counts=COUNTS)
def test_one_wild_window_in_a_hundred_does_not_raise_it(counts: list[int]) -> None:
    calm = [count % 50 for count in counts] * 100

    assert suggested_rate([*calm, 10**9]) == suggested_rate(calm)


@given(value=st.floats(0.5, 1e9))
def test_rounding_up_adds_a_tenth_at_most(value: float) -> None:
    assert value <= rounded_up(value) <= max(value * 1.1, value + 1)


@pytest.mark.parametrize(("hours", "burst"), [(168, 600.0), (169, 10.0)])
def test_a_deploy_that_comes_once_in_a_week_counts_and_once_in_longer_does_not(hours: int, burst: float) -> None:
    # A week that begins within an hour ends within one: the hours are 168 apart.
    assert suggested_burst({**dict.fromkeys(range(hours), 5), hours: 500}, 10.0) == burst


@pytest.mark.parametrize(("other", "burst"), [(250, 600.0), (249, 300.0)])
def test_a_peak_counts_for_the_burst_if_another_is_half_as_large(other: int, burst: float) -> None:
    assert suggested_burst({0: 500, 200: other, 400: 1}, 10.0) == burst


def test_a_burst_has_room_for_peaks_between_which_it_does_not_refill_and_for_no_more() -> None:
    assert suggested_burst({0: 100, 4: 100}, 10.0) == 200.0, "40 come back between them"
    assert suggested_burst({0: 100, 90: 100}, 10.0) == 120.0, "a full bucket again"
    assert suggested_burst({0: 9, 1: 9}, 10.0) == 10.0, "the rate suffices"


def test_what_a_quota_refuses_takes_tokens_down_to_a_window_s_and_tokens_come_back_up_to_the_burst() -> None:
    quota = Allowance(10.0, 100.0)

    assert excess({0: 150, 3: 40}, quota) == Excess(2, 2, 50 + 20)
    assert excess({0: 104, 1: 5, 2: 5}, quota) == Excess(3, 1, 4)
    assert excess({0: 90, 1000: 101}, quota) == Excess(2, 1, 1)
    assert excess({0: 90, 1000: 101}, None) == Excess(2, 0, 0)


def test_weekly_deploys_that_cross_an_hour_need_a_burst_and_no_higher_rate() -> None:
    weeks = dict.fromkeys(range(5 * 168), 5) | {week * 168 + hour: 250 for week in range(5) for hour in (50, 51)}

    rate = suggested_rate(windows_with_peaks_once(weeks))

    assert (rate, suggested_burst(weeks, rate)) == (10.0, 590.0)


def test_a_leak_of_two_hours_beside_weekly_deploys_is_no_reason_for_a_burst() -> None:
    deploys = dict.fromkeys(range(5 * 168), 5) | {week * 168 + 50: 500 for week in range(5)}

    assert suggested_burst(deploys | {400: 6000, 401: 6000}, 10.0) == suggested_burst(deploys, 10.0) == 600.0

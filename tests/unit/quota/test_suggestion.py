"""Quotas suggested from history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.errors import InvalidConfigError
from quota.suggestion import rounded_up, suggested_rate

COUNTS = st.lists(st.integers(0, 10**7), min_size=1, max_size=200)


@given(counts=COUNTS, percentile=st.floats(1, 100), headroom=st.floats(1, 5))
def test_the_windows_asked_for_fit_with_headroom(counts: list[int], percentile: float, headroom: float) -> None:
    rate = suggested_rate(counts, percentile=percentile, headroom=headroom)

    fitting = sum(count * headroom <= rate for count in counts)
    assert fitting >= len(counts) * percentile / 100


@given(counts=COUNTS)
def test_one_wild_window_in_a_hundred_does_not_raise_it(counts: list[int]) -> None:
    calm = [count % 50 for count in counts] * 100

    assert suggested_rate([*calm, 10**9]) == suggested_rate(calm)


@given(value=st.floats(0.5, 1e9))
def test_rounding_up_adds_a_tenth_at_most(value: float) -> None:
    assert value <= rounded_up(value) <= max(value * 1.1, value + 1)


@pytest.mark.parametrize(
    ("counts", "options"),
    [([], {}), ([1], {"percentile": 0.0}), ([1], {"percentile": 101.0}), ([1], {"headroom": 0.5})],
)
def test_what_can_not_be_answered_is_refused(counts: list[int], options: dict[str, float]) -> None:
    with pytest.raises(InvalidConfigError):
        suggested_rate(counts, **options)

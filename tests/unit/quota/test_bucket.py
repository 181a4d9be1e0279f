from hypothesis import given
from hypothesis import strategies as st

from quota.bucket import BucketTerms, TokenBucket
from quota.config import QuotaConfig
from quota.timeline import Timeline

CONFIG = QuotaConfig()
LINE = Timeline.of(CONFIG)


@given(
    quota=st.floats(0.001, 1e9, allow_nan=False),
    steps=st.lists(st.integers(0, 400), max_size=30),
    taken=st.integers(0, 50),
)
def test_refilling_in_steps_equals_refilling_at_once(quota: float, steps: list[int], taken: int) -> None:
    terms = BucketTerms.of(quota, CONFIG)
    at_once, in_steps = TokenBucket.full(terms, 0), TokenBucket.full(terms, 0)
    for bucket in (at_once, in_steps):
        for _ in range(taken):
            bucket.take(terms)

    tick = 0
    for step in steps:
        tick += step
        in_steps.refill(terms, tick, LINE)
    at_once.refill(terms, tick, LINE)

    assert in_steps == at_once


@given(
    quota=st.floats(0.001, 1e6, allow_nan=False),
    lowered=st.floats(0.001, 1e6, allow_nan=False),
    longest_s=st.floats(60, 7200),
    steps=st.lists(st.integers(0, 400), max_size=30),
)
def test_a_debt_has_its_limit_and_a_lowered_quota_s_whatever_the_number_of_refills(
    quota: float, lowered: float, longest_s: float, steps: list[int]
) -> None:
    config = QuotaConfig(max_throttle_seconds=longest_s)
    terms, lower = BucketTerms.of(quota, config), BucketTerms.of(min(quota, lowered), config)
    at_once, in_steps = TokenBucket(-1, 0), TokenBucket(-1, 0)
    for bucket in (at_once, in_steps):
        owed = sum(bucket.owe(terms) for _ in range(200))
        assert bucket.units >= min(-1, -terms.debt_units)
        assert owed == 200 or not bucket.owe(terms)

    tick = 0
    for step in steps:
        tick += step
        in_steps.refill(lower, tick, LINE)
    at_once.refill(lower, tick, LINE)

    assert in_steps.units_at(lower, tick, LINE) == at_once.units >= lower.least_units


@given(quota=st.floats(0.01, 1e6, allow_nan=False))
def test_bucket_is_no_longer_exhausted_after_its_throttle_time(quota: float) -> None:
    terms = BucketTerms.of(quota, CONFIG)
    bucket = TokenBucket(-terms.units_per_token, 0)
    wait_ms = bucket.throttle_time_ms(terms)

    bucket.refill(terms, LINE.tick(wait_ms) + 1, LINE)

    assert bucket.units >= 0


def test_a_throttle_time_is_rounded_half_up_as_kafka_s_is() -> None:
    terms = BucketTerms.of(100.0, CONFIG)
    half_ms = terms.refill_per_ms // 2

    assert [TokenBucket(-units, 0).throttle_time_ms(terms) for units in (half_ms - 1, half_ms, 3 * half_ms)] == [
        0,
        1,
        2,
    ]


@given(units=st.integers(-(10**30), 10**30), tick=st.integers(0, 2**40))
def test_a_bucket_of_any_size_fits_into_its_stored_parts(units: int, tick: int) -> None:
    bucket = TokenBucket(units, tick)
    parts = bucket.to_parts()

    assert TokenBucket.from_parts(parts) == bucket
    assert all(-(2**63) <= part < 2**63 for part in parts)

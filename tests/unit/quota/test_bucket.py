from hypothesis import given
from hypothesis import strategies as st

from quota.bucket import TokenBucket, bucket_terms
from quota.config import QuotaConfig
from quota.limits import Limit
from quota.timeline import Timeline

CONFIG = QuotaConfig()
LINE = Timeline(CONFIG.quantum_ms)
UNITS_PER_TOKEN = bucket_terms(100.0, None, CONFIG).units_per_token


def bucket_with(units: int, quota: float, config: QuotaConfig = CONFIG) -> TokenBucket:
    return TokenBucket(config, LINE, Limit(quota, "user"), (str(units), 0))


@given(
    quota=st.floats(0.001, 1e6, allow_nan=False),
    lowered=st.floats(0.001, 1e6, allow_nan=False),
    longest_s=st.floats(60, 7200),
    steps=st.lists(st.integers(0, 400), max_size=30),
    owed=st.integers(0, 200),
)
def test_a_debt_has_its_limit_and_a_lowered_quota_s_whatever_the_number_of_refills(
    quota: float, lowered: float, longest_s: float, steps: list[int], owed: int
) -> None:
    config, lower = QuotaConfig(max_throttle_seconds=longest_s), Limit(min(quota, lowered), "user")
    at_once, in_steps = bucket_with(-1, quota, config), bucket_with(-1, quota, config)
    for bucket in (at_once, in_steps):
        for _ in range(owed):
            if bucket.has_credit(0):
                bucket.take_token(0)
        assert (bucket.tokens(0) or 0) >= -max(bucket.debt(), 1)
        bucket.change_quota(lower, 0)

    tick = 0
    for step in steps:
        tick += step
        # The same quota again only refills the bucket.
        in_steps.change_quota(lower, tick)

    assert in_steps.tokens(tick) == at_once.tokens(tick)
    assert (in_steps.tokens(tick) or 0) >= -max(in_steps.debt(), 1)


@given(quota=st.floats(0.01, 1e6, allow_nan=False))
def test_bucket_is_no_longer_exhausted_after_its_throttle_time(quota: float) -> None:
    bucket = bucket_with(-UNITS_PER_TOKEN, quota)

    assert not bucket.has_token(0)
    assert bucket.has_token(LINE.tick(bucket.recovers_ms(0)) + 1)


def test_a_throttle_time_is_rounded_half_up_as_kafka_s_is() -> None:
    half_ms = bucket_terms(100.0, None, CONFIG).refill_per_ms // 2

    assert [bucket_with(-units, 100.0).throttle_time_ms(0) for units in (half_ms - 1, half_ms, 3 * half_ms)] == [
        0,
        1,
        2,
    ]

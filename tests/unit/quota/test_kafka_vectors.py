"""Rate and tokens against Kafka's own classes (recorded by tests/vectors/KafkaVectors.java)."""

import json
from pathlib import Path
from typing import Any

import pytest

from quota.bucket import TokenBucket
from quota.config import QuotaConfig
from quota.limits import Limit
from quota.rate import SampledRate
from quota.timeline import Timeline

RUNS = json.loads((Path(__file__).parents[2] / "vectors" / "kafka.json").read_text())


class Milliseconds(Timeline):
    """A timeline whose ticks are milliseconds: Kafka refills at every call, we only between ticks."""

    def tick_start_ms(self, tick: int) -> int:
        """Return the tick."""
        return tick


@pytest.mark.parametrize(
    "run", RUNS, ids=lambda run: f"S{run['window_num']}-W{run['window_seconds']}-{run['gap_ms']}ms"
)
def test_rate_equals_kafkas_rate(run: dict[str, Any]) -> None:
    config = QuotaConfig(window_num=run["window_num"], window_seconds=run["window_seconds"])
    rate = SampledRate()
    for now_ms, recorded, expected, _ in run["steps"]:
        if recorded:
            rate.record(1, config, now_ms)
            assert rate.measure(config, now_ms) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "run", RUNS, ids=lambda run: f"S{run['window_num']}-W{run['window_seconds']}-{run['gap_ms']}ms"
)
def test_tokens_equal_kafkas_token_bucket(run: dict[str, Any]) -> None:
    # Kafka's permissive record takes a token even from an exhausted bucket, without a limit.
    window = run["window_seconds"]
    config = QuotaConfig(window_seconds=window, burst_windows=run["window_num"], max_throttle_seconds=1000 * window)
    bucket = TokenBucket(config, Milliseconds(quantum_ms=1), Limit(run["quota"], "user"))
    for now_ms, recorded, _, expected in run["steps"]:
        if recorded:
            assert bucket.has_token(now_ms) or bucket.has_credit(now_ms)
            bucket.take_token(now_ms)
        assert bucket.tokens(now_ms) == pytest.approx(expected, rel=1e-9, abs=1e-9)

"""A flood's refused PIDs are counted by coupons: what is left out of a sketch changes nothing in it."""

import numpy as np
import pytest

from quota.config import QuotaConfig
from quota.limits import Limit
from state import ledger_batch
from state.coupons import NO_COUPON, coupons_of, covered_by
from state.events import CHARGED, LEARNING, Deployment, Events, Outcome
from state.sketch import DistinctPids
from tests.kits.ledger_kit import Principal

NOW_MS = 1_790_000_000_000 // 900_000 * 900_000
QUANTUM_MS = 900_000
FLOOD = 4_000
ENOUGH = 300
"""So many refused PIDs are counted by coupons."""


@pytest.mark.parametrize("most", [2**20, 2**63, 2**64 - 1])
def test_a_pid_whose_coupon_is_covered_leaves_a_sketch_as_it_is(most: int) -> None:
    sketch, covered, skipped = DistinctPids(), {NO_COUPON}, 0
    pid_hashes: list[int] = np.random.default_rng(1).integers(0, most, 20_000, np.uint64, endpoint=True).tolist()

    for pid_hash, coupon in zip(pid_hashes, coupons_of(pid_hashes), strict=True):
        before = sketch.to_bytes()
        sketch.add(pid_hash)
        if coupon in covered:
            assert sketch.to_bytes() == before
            skipped += 1
        elif sketch.has_registers():
            covered.update(covered_by(coupon))

    assert skipped > 15_000


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("rate", "span_ms", "pause_ms", "config"),
    [
        pytest.param(50.0, 600_000, 100_000, QuotaConfig(), id="throttles end between batches"),
        pytest.param(50.0, 600_000, 0, QuotaConfig(metrics_interval_seconds=3600), id="quanta end within an interval"),
        pytest.param(
            500.0,
            60_000,
            0,
            QuotaConfig(metrics_interval_seconds=900, min_throttle_seconds=0),
            id="tokens come back and throttles end within an interval",
        ),
    ],
)
def test_a_flood_is_counted_as_if_each_pid_were_asked_about(
    rate: float, span_ms: int, pause_ms: int, config: QuotaConfig, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins_ms = [NOW_MS + number * (span_ms + pause_ms) for number in range(3)]
    batches = [flood(np.random.default_rng((seed, n)), at_ms, span_ms) for n, at_ms in enumerate(begins_ms)]

    counted = outcomes(batches, Limit(rate, "user"), config)
    monkeypatch.setattr(ledger_batch, "FLOOD_PIDS", FLOOD + 1)

    assert counted == outcomes(batches, Limit(rate, "user"), config)
    assert any(decision.evidence.refused_pids > ENOUGH for each in counted for decision in each.decisions)


def flood(drawn: np.random.Generator, begin_ms: int, span_ms: int) -> Events:
    """PIDs that come once, some that repeat, some steady ones; over intervals and quanta, and not always in order."""
    pids = drawn.integers(0, drawn.choice([20, 300, 10**6, 10**6], FLOOD))
    times = begin_ms + np.arange(FLOOD) * span_ms // FLOOD
    times[drawn.integers(0, FLOOD, 80)] -= drawn.choice([10_000, 70_000, 400_000, QUANTUM_MS], 80)
    kinds = drawn.choice([CHARGED, LEARNING], FLOOD, p=[0.996, 0.004])
    clients = list(zip(*(drawn.choice(texts, FLOOD).tolist() for texts in (["a", "b"], ["", "10.0.0.7"])), strict=True))
    return Events(pids.tolist(), times.tolist(), clients, kinds.tolist())


def outcomes(batches: list[Events], limit: Limit, config: QuotaConfig) -> list[Outcome]:
    principal = Principal(Deployment(config, salt=5), NOW_MS, limit)
    return [principal.takes(batch) for batch in batches]

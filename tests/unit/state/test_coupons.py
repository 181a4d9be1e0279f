"""A flood's refused PIDs are counted by coupons: what is left out of a sketch changes nothing in it."""

import numpy as np
import pytest

from quota.config import QuotaConfig
from quota.limits import Limit
from state import ledger_batch
from state.coupons import NO_COUPON, coupons_of, covered_by
from state.events import CHARGED, CORRECTION, LEARNING, Deployment, Events, Outcome
from state.ledger import Ledger
from state.sketch import DistinctPids

NOW_MS = 1_790_000_000_000 // 900_000 * 900_000
QUANTUM_MS = 900_000
FLOOD = 4_000


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


def test_a_sketch_that_lists_its_pids_has_no_registers() -> None:
    sketch = DistinctPids()
    for number in range(96):
        sketch.add(number)

    assert not sketch.has_registers()


@pytest.mark.parametrize("seed", range(12))
def test_a_flood_is_counted_as_if_each_pid_were_asked_about(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [flood(np.random.default_rng((seed, number)), NOW_MS + number * 700_000) for number in range(3)]

    counted = outcomes(batches)
    monkeypatch.setattr(ledger_batch, "FLOOD_PIDS", FLOOD + 1)

    assert counted == outcomes(batches)
    assert any(decision.evidence.refused_pids > FLOOD / 4 for each in counted for decision in each.decisions)


def flood(drawn: np.random.Generator, begin_ms: int) -> Events:
    """PIDs that come once, some that repeat, some steady ones; over intervals and quanta, and not always in order."""
    pids = drawn.integers(0, drawn.choice([20, 300, 10**6, 10**6], FLOOD))
    times = begin_ms + np.arange(FLOOD) * 600_000 // FLOOD
    times[drawn.integers(0, FLOOD, 80)] -= drawn.choice([10_000, 70_000, 400_000, QUANTUM_MS], 80)
    kinds = drawn.choice([CHARGED, CORRECTION, LEARNING], FLOOD, p=[0.996, 0.002, 0.002])
    return Events(pids.tolist(), times.tolist(), drawn.choice(["a", "b"], FLOOD).tolist(), kinds.tolist())


def outcomes(batches: list[Events]) -> list[Outcome]:
    deployment, stored, found = Deployment(QuotaConfig(), salt=5), None, []
    for events in batches:
        outcome = Ledger("User:a", deployment, stored).process(events, Limit(50.0, "user"))
        found.append(outcome)
        stored = outcome.content
    return found

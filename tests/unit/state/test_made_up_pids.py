"""Nobody gets past a quota by the choice of their PIDs: false positives stay at the configured rate for any of them."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import numpy.typing as npt
import pytest

from quota.config import QuotaConfig
from state.hashing import hash_pid, hash_pids
from state.layers import LayeredBloomFilter

BITS = 63
"""PIDs are 0 to 2**63 - 1."""
SALT = 0x5A17_5A17_5A17_5A17

Pids = npt.NDArray[np.uint64]
Family = Callable[[int], Pids]


def rotated(steps: Pids, by: int) -> Pids:
    """Strides of 2**by that go on at the low bits when they are through: distinct for distinct steps."""
    high: Pids = (steps << np.uint64(by)) & np.uint64(2**BITS - 1)
    return high | steps >> np.uint64(BITS - by) if by else high


def stride(by: int) -> Family:
    return lambda count: rotated(np.arange(count, dtype=np.uint64), by)


def pairs(count: int) -> Pids:
    """The same counter above and below."""
    steps = np.arange(count, dtype=np.uint64)
    high: Pids = steps << np.uint64(32)
    return high | steps


def of_many_brokers(count: int) -> Pids:
    """PIDs as one client sees them when 16 brokers take turns with blocks."""
    steps = np.arange(count, dtype=np.uint64)
    pids: Pids = steps // np.uint64(1000) * np.uint64(16_000) + steps % np.uint64(1000)
    return pids


def at_random(count: int) -> Pids:
    pids: Pids = np.unique(np.random.default_rng(5).integers(0, 2**BITS - 1, count + count // 50, np.uint64))[:count]
    return pids


FAMILIES: dict[str, Family] = {
    "random": at_random,
    "pairs": pairs,
    "of many brokers": of_many_brokers,
    **{f"stride 2^{by}": stride(by) for by in range(BITS)},
}
QUICK = ["random", "pairs", "stride 2^0", "stride 2^44"]


def full_filter(hashes: list[int], config: QuotaConfig) -> LayeredBloomFilter:
    """Spread PIDs over all live quanta, so that every layer answers look-ups."""
    seen, quanta = LayeredBloomFilter(config, quantum=0), config.layer_count + 1
    for quantum in range(quanta):
        seen.advance(quantum)
        for pid_hash in hashes[quantum::quanta]:
            seen.store(pid_hash, quantum)
    return seen


def found_of_unseen(family: Family, rate: float, look_ups: int) -> int:
    config, held = QuotaConfig(false_positive_rate=rate), 10_000
    hashes = hash_pids(family(look_ups + held).view(np.int64).tolist(), SALT)
    seen = full_filter(hashes[:held], config)
    return sum(seen.find(pid_hash) is not None for pid_hash in hashes[held:])


def most(rate: float, look_ups: int) -> float:
    """Four standard deviations of a binomial: once in 30,000 runs, were the filter exactly at its rate."""
    return rate * look_ups + 4 * sqrt(rate * look_ups)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES)])
def test_false_positives_are_at_most_as_configured_for_any_pattern_of_pids(name: str) -> None:
    assert found_of_unseen(FAMILIES[name], 0.01, 50_000) <= most(0.01, 50_000)


def test_false_positives_are_at_most_as_configured_by_default() -> None:
    assert found_of_unseen(of_many_brokers, 1e-4, 500_000) <= most(1e-4, 500_000)


def test_many_pids_have_the_hashes_that_they_have_one_by_one() -> None:
    pids = [0, 1, 2**63 - 1, 2**62, 4711] * 20

    assert hash_pids(pids, SALT) == [hash_pid(pid, SALT) for pid in pids]
    assert len(set(hash_pids(range(100_000), SALT))) == 100_000

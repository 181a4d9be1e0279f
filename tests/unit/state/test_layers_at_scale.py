"""What the filter promises over many look-ups."""

from math import log, log2

import pytest

from quota.config import QuotaConfig
from quota.limits import Limit
from state.events import Deployment
from state.hashing import hash_pids
from state.layers import LayeredBloomFilter
from state.ledger import Ledger
from tests.kits.ledger_kit import admitted, events_at

ATTACK = 400_000
"""PIDs of an attack."""
QUANTUM_MS = 900_000
START_MS = 1_790_000_100_000 // QUANTUM_MS * QUANTUM_MS
SALT = 0x1F3D5B79A2C4E688


def sequential(count: int, begin: int) -> list[int]:
    """PIDs as a broker hands them out: one block of 1000 after another."""
    return list(range(begin, begin + count))


def test_no_pid_seen_within_the_window_is_ever_taken_for_a_new_one() -> None:
    seen = LayeredBloomFilter(QuotaConfig(false_positive_rate=1e-9), quantum=0)
    pids = hash_pids(sequential(5000, 5000), SALT)
    for pid in pids:
        seen.store(pid, 0)
    looked_up = not_refreshed = 0
    for quantum in range(1, 45):
        seen.advance(quantum)
        # Most PIDs produce in every quantum, a tenth only once in a window.
        due = [pid for n, pid in enumerate(pids) if n % 10 or n // 10 % 4 == quantum % 4]
        sources = [seen.find(pid) for pid in due]
        assert None not in sources
        not_refreshed += sum(
            not seen.refresh(pid, source, quantum) for pid, source in zip(due, sources, strict=True) if source
        )
        looked_up += len(due)

    assert (looked_up, not_refreshed) == (203_500, 0)
    assert seen.active_pids() == 5000


def flood(ledger: Ledger, first_pid: int, count: int, at_ms: int) -> None:
    for begin in range(first_pid, first_pid + count, 100_000):
        pids = range(begin, min(begin + 100_000, first_pid + count))
        ledger.process(events_at(at_ms, pids), Limit(100.0, "user"))


def produce(ledger: Ledger, pids: list[int], at_ms: int) -> int:
    """Produce with each PID and return how many of them were admitted or refused as new."""
    probe = Ledger("User:probe", Deployment(salt=SALT), ledger.to_bytes())
    outcome = probe.process(events_at(at_ms, pids), Limit(1e9, "user"))
    ledger.process(events_at(at_ms, pids), Limit(100.0, "user"))
    return admitted(outcome)


def test_an_attack_neither_grows_the_state_nor_pushes_out_long_lived_pids() -> None:
    full = Ledger("User:full", Deployment(salt=SALT))
    for quantum in range(5):
        flood(full, quantum * 10**6, 1000, START_MS + quantum * QUANTUM_MS)
    ledger = Ledger("User:mallory", Deployment(salt=SALT, learn_until_ms=START_MS + 1000))
    long_lived = sequential(1000, 10**9)
    produce(ledger, long_lived, START_MS)
    with_long_lived = len(ledger.to_bytes())

    # The long-lived PIDs produce once in each quantum, at its end, after the attack had all of it.
    lost = 0
    for quantum in range(1, 9):
        flood(ledger, quantum * 10**7, ATTACK // 8, START_MS + quantum * QUANTUM_MS)
        lost += produce(ledger, long_lived, START_MS + (quantum + 1) * QUANTUM_MS - 1)

    assert lost <= 0.001 * len(long_lived) * 8
    assert len(ledger.to_bytes()) <= 2 * len(full.to_bytes()) + 5 * with_long_lived


@pytest.mark.parametrize("quanta", [5, 10], ids=["first window", "later window"])
@pytest.mark.parametrize("entries", [1000, 5000, 50_000])
@pytest.mark.parametrize("kind", ["all new", "long-lived"])
def test_a_ledger_is_at_most_1_6_times_the_bloom_optimum_and_300_bytes(entries: int, quanta: int, kind: str) -> None:
    config = QuotaConfig()
    ledger = Ledger("User:a", Deployment(config, salt=SALT))
    size = entries // (config.layer_count + 1)
    for quantum in range(quanta):
        pids = sequential(size, 5000 + (quantum * entries if kind == "all new" else 0))
        ledger.process(events_at(START_MS + quantum * QUANTUM_MS, pids), Limit(1e9, "user"))

    optimum = entries * log2(1 / config.false_positive_rate) / log(2) / 8
    assert len(ledger.to_bytes()) <= 1.6 * optimum + 300

"""Nanoseconds of the core alone: what a look-up and an admission cost, without Spark, Kafka or Delta.

    .venv/bin/python bench/core.py

The last line is JSON. Each figure is the best of several rounds: others on the machine only ever add to it.
"""

import json
import time
from collections.abc import Callable

from quota.config import QuotaConfig
from quota.limits import Limit
from state.events import CHARGED, Deployment, Events
from state.ledger import Ledger

ROUNDS = 5
BEGIN_MS = 1_790_000_000_000 // 900_000 * 900_000
SIZES = (100, 100_000)
LAYERS = (1, 4)


def main() -> None:
    found = {
        f"{what}_{size}_pids_{layers}_layers_ns": nanoseconds(what, size, layers)
        for what in WHATS
        for size in SIZES
        for layers in LAYERS
    }
    for name, value in found.items():
        print(f"{name:42} {value:>10,.0f}")
    print(
        json.dumps(
            found
            | {"lookup_ns": found["known_100_pids_4_layers_ns"], "admit_ns": found["admitted_100_pids_4_layers_ns"]}
        )
    )


def nanoseconds(what: str, size: int, layers: int) -> float:
    """Return the time of one event of a kind, for a ledger that remembers so many PIDs in so many layers."""
    return round(min(WHATS[what](size, layers) for _ in range(ROUNDS)), 1)


def known(size: int, layers: int) -> float:
    """A PID that the current quantum holds."""
    ledger, pids, now_ms = filled(size, layers)
    return timed(ledger, events(pids * (1 + 20_000 // size), now_ms), Limit(1e9, "user"))


def refused(size: int, layers: int) -> float:
    """An unseen PID, when the bucket is exhausted."""
    ledger, _, now_ms = filled(size, layers)
    few = Limit(1.0, "user")
    ledger.process(events([-7, -8, -9], now_ms), few)
    return timed(ledger, events(list(range(10**9, 10**9 + 20_000)), now_ms), few)


def admitted(size: int, layers: int) -> float:
    """An unseen PID, when there are tokens."""
    ledger, _, now_ms = filled(size, layers)
    return timed(ledger, events(list(range(10**9, 10**9 + 20_000)), now_ms), Limit(1e9, "user"))


WHATS: dict[str, Callable[[int, int], float]] = {"known": known, "refused": refused, "admitted": admitted}


def filled(size: int, layers: int) -> tuple[Ledger, list[int], int]:
    """Return a ledger that remembers PIDs, those of the newest quantum, and a time in it."""
    config = QuotaConfig()
    ledger, share = Ledger("User:a", Deployment(config, salt=7)), max(1, size // layers)
    for layer in range(layers):
        pids = list(range(layer * share, (layer + 1) * share))
        now_ms = BEGIN_MS + layer * config.quantum_ms
        ledger.process(events(pids, now_ms), Limit(1e9, "user"))
    return ledger, pids, now_ms


def events(pids: list[int], now_ms: int) -> Events:
    size = len(pids)
    return Events(pids, [now_ms] * size, [("c", "")] * size, [CHARGED] * size, [-1] * size)


def timed(ledger: Ledger, given: Events, limit: Limit) -> float:
    begin = time.perf_counter_ns()
    ledger.process(given, limit)
    return (time.perf_counter_ns() - begin) / len(given.pids)


if __name__ == "__main__":
    main()

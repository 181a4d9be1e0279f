"""Measures the speed-ups of ledgers on what the plugin writes: how long a batch takes without each of them.

    .venv/bin/python bench/speedups.py

A speed-up stays if it saves a tenth of the job's CPU in one of these loads:

- many: 20,000 users with 10 PIDs each, which the plugin reports every 30 s; 2,000 new PIDs an hour
- flood: one user makes 5,000 PIDs a second
- few: 50 users with 40 PIDs each, every 10 s

A batch has the events of 5 s. Times are milliseconds of CPU in this process, without Spark. The last line is JSON.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

from quota.limits import Limit
from state import ledger as ledger_module
from state.events import CHARGED, Deployment, Events
from state.ledger import Ledger
from state.ledger_batch import LedgerBatch

BATCH_MS, BATCHES, WARM_UP = 5000, 12, 6
BEGIN_MS = 1_800_000_000_000
QUOTA = Limit(100.0, "default")
Batch = list[tuple[str, list[int], list[int]]]
"""Each principal's PIDs and times in a batch."""


class WithoutRefusingTick(LedgerBatch):
    """A batch that asks the rule about each unseen PID."""

    @property
    def _refusing_tick(self) -> int:
        return -1

    @_refusing_tick.setter
    def _refusing_tick(self, tick: int) -> None:
        """Forget the tick."""


def steady(users: int, pids_each: int, repeat_ms: int, new_an_hour: int) -> Iterator[Batch]:
    """Yield batches of users whose PIDs the plugin reports together, once per repeat interval."""
    chance = random.Random(1)  # noqa: S311
    pids = [[user * 1000 + number for number in range(pids_each)] for user in range(users)]
    moments = [chance.randrange(repeat_ms) for _ in range(users)]
    share = new_an_hour * repeat_ms / 3_600_000 / users
    for begin_ms in range(0, BATCHES * BATCH_MS, BATCH_MS):
        batch: Batch = []
        for user, moment_ms in enumerate(moments):
            at_ms = begin_ms + (moment_ms - begin_ms) % repeat_ms
            if at_ms < begin_ms + BATCH_MS:
                if chance.random() < share:
                    pids[user] = [*pids[user][1:], 10**9 + begin_ms * users + user]
                batch.append((f"User:{user}", pids[user], [at_ms] * pids_each))
        yield batch


def flood(pids_a_second: int) -> Iterator[Batch]:
    """Yield batches of one user who makes PIDs."""
    size = pids_a_second * BATCH_MS // 1000
    for number in range(BATCHES):
        times = [number * BATCH_MS + each * BATCH_MS // size for each in range(size)]
        yield [("User:flood", list(range(number * size, (number + 1) * size)), times)]


LOADS: dict[str, Callable[[], Iterator[Batch]]] = {
    "many": partial(steady, 20_000, 10, 30_000, 2000),
    "flood": partial(flood, 5000),
    "few": partial(steady, 50, 40, 10_000, 0),
}
SPEED_UPS = {
    "none": [],
    "noop_check": [partial(patch.object, ledger_module, "changes_nothing", lambda *_: False)],
    "refusing_tick": [partial(patch.object, ledger_module, "LedgerBatch", WithoutRefusingTick)],
}
"""What is replaced to measure without a speed-up."""


def batch_ms(load: str, without: str) -> float:
    """Return the milliseconds of CPU that an average batch of a load takes."""
    deployment, stored, spent = Deployment(salt=7), dict[str, bytes](), 0.0
    with ExitStack() as stack:
        for replace in SPEED_UPS[without]:
            stack.enter_context(replace())
        for number, batch in enumerate(LOADS[load]()):
            begin = time.process_time()
            for principal, pids, times in batch:
                size = len(pids)
                events = Events(pids, [BEGIN_MS + at_ms for at_ms in times], [("app", "")] * size, [CHARGED] * size)
                ledger = Ledger(principal, deployment, stored.get(principal))
                stored[principal] = ledger.process(events, QUOTA).content
            spent += time.process_time() - begin if number >= WARM_UP else 0
    return spent * 1000 / (BATCHES - WARM_UP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    figures = {
        f"{load}_without_{without}_ms": round(min(batch_ms(load, without) for _ in range(rounds)), 1)
        for load in LOADS
        for without in SPEED_UPS
    }
    for name, figure in figures.items():
        print(f"{name}: {figure}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

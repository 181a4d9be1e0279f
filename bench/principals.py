"""Measures what a principal costs the stream's operator in a batch, if all its PIDs are known and if not.

    .venv/bin/python bench/principals.py

The operator runs in this process, without Spark, over the default number of state buckets. Times are CPU times. The
last line is JSON.
"""

import argparse
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming.state import GroupState
from typing_extensions import override

from bench.kit import QUOTA
from bench.rounds import spread
from quota.limits import Limit, Quotas
from state.events import Deployment
from streaming.batch.event_times import EventTimes
from streaming.batch.tasks import TaskBatch
from streaming.batch.tracked_principals import TrackedPrincipals
from streaming.checkpoint.identity import DEFAULT_STATE_BUCKETS
from streaming.operator.ledger_operator import Operator
from wire.packed_events import PackedEvents, pack

PIDS_EACH = 5
INTERVAL_MS = 60_000
START_MS = 1_800_000_000_000


@dataclass(frozen=True)
class OneBatch(TaskBatch):
    """Metadata of a batch in memory."""

    checkpoint: str = ""

    def begin_ms(self) -> int | None:
        return None

    def quotas(self) -> Quotas:
        return Quotas(default=Limit(QUOTA, "default", START_MS))

    def tracked_principals(self) -> TrackedPrincipals:
        return TrackedPrincipals()

    def event_times(self) -> EventTimes:
        return EventTimes()


class MemoryState(GroupState):
    """The part of Spark's `GroupState` that the operator uses, in memory."""

    def __init__(self) -> None:
        self._content: tuple[bytes, ...] = ()

    @property
    @override
    def exists(self) -> bool:
        return bool(self._content)

    @property
    @override
    def get(self) -> tuple[bytes, ...]:
        return self._content

    @property
    @override
    def hasTimedOut(self) -> bool:
        return False

    @override
    def update(self, newValue: Any) -> None:
        self._content = newValue

    @override
    def setTimeoutDuration(self, durationMs: Any) -> None:
        """Ignore the timeout: all groups have events in each batch."""


@dataclass
class Groups:
    """The states of all buckets, and an operator."""

    operator: Operator = field(default_factory=lambda: Operator(Deployment(salt=1), OneBatch()))
    states: list[MemoryState] = field(default_factory=lambda: [MemoryState() for _ in range(DEFAULT_STATE_BUCKETS)])

    def process(self, principals: int, pids: Sequence[int], at_ms: int) -> float:
        """Process a batch in which each principal has an event per PID; return microseconds per principal."""
        rows: list[list[tuple[str, bytes]]] = [[] for _ in self.states]
        for number in range(principals):
            name = f"User:app-{number}"
            rows[zlib.crc32(name.encode()) % len(rows)].append((name, packed(number, pids, at_ms)))
        frames = [pd.DataFrame(each, columns=["principal", "packed"]) for each in rows]
        begin = time.process_time()
        for bucket, (frame, state) in enumerate(zip(frames, self.states, strict=True)):
            for _ in self.operator((bucket,), iter([frame]), state):
                pass
        return (time.process_time() - begin) * 1e6 / principals


def packed(number: int, pids: Sequence[int], at_ms: int) -> bytes:
    """Return a principal's events as the pre-aggregation packs them."""
    own = (np.array(pids, np.int64) + number * 1_000_000).tobytes()
    zeros, times = np.zeros(len(pids), np.int64).tobytes(), np.full(len(pids), at_ms, np.int64).tobytes()
    offsets = np.arange(len(pids), dtype=np.int64).tobytes()
    client: Any = [("app", "")]
    return pack(PackedEvents(0, offsets, own, times, zeros, zeros, client))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--principals", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    groups, pids = Groups(), list(range(PIDS_EACH))
    groups.process(asked.principals, pids, START_MS)
    known, other = [], []
    for number in range(1, asked.rounds + 1):
        at_ms = START_MS + number * INTERVAL_MS
        # A batch of the next interval, with a new PID and a metrics row for each principal.
        other.append(groups.process(asked.principals, [*pids[1:], PIDS_EACH + number], at_ms))
        known.append(groups.process(asked.principals, pids, at_ms + 1000))
    print(json.dumps(vars(asked) | {"known_us": spread(known), "other_us": spread(other)}))


if __name__ == "__main__":
    main()

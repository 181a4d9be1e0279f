"""A PID in use is never charged again, wherever batches are cut: the packing, the operator."""

from collections import Counter

import numpy as np
import pytest

from quota.limits import Limit, Quotas
from state.events import Deployment
from streaming.decode.packing import pack_by_principal
from streaming.operator.rows import unpack_rows
from tests.kits.batch_kit import KnownBatch, operator_of
from tests.kits.exploded_kit import event_table, exploded
from tests.kits.group_state_kit import State
from tests.kits.packed_kit import frame_of

SECOND_MS, MINUTE_MS, HOUR_MS = 1000, 60_000, 3_600_000
START_MS = 1_790_000_100_000 // HOUR_MS * HOUR_MS
PRODUCERS = 200

Produced = list[tuple[int, int]]
"""Times in milliseconds after the start and PIDs, in order."""


class Stream:
    """One worker and one state of Spark's, which holds what the operator stores and nothing else."""

    def __init__(self, quota: float, learn_ms: int = 0) -> None:
        deployment = Deployment(salt=9, learn_until_ms=START_MS + learn_ms)
        quotas = Quotas(default=Limit(quota, "default", 0))
        self.operator = operator_of(deployment, KnownBatch(in_force=quotas))
        self.state, self.offset = State(), 0
        self.charged: Counter[int] = Counter()
        self.throttles = 0

    def take(self, produced: Produced) -> None:
        last = self.offset + len(produced) - 1
        times, pids = [START_MS + at_ms for at_ms, _ in produced], [pid for _, pid in produced]
        events = event_table(pids, times, offset=range(self.offset, last + 1))
        rows = list(pack_by_principal(exploded(events)))
        self.offset = last + 1
        self.state = self.state.next_call()
        for part in self.operator((0,), iter([frame_of(rows)]), self.state):
            for kind, body in unpack_rows(part["packed"]):
                self.throttles += kind == "throttle_decisions"
                if kind == "producer_id_metrics":
                    self.charged[body["window_end"]] = body["admitted_pids"] + body["refused_pids"]

    def take_in_batches(self, produced: Produced, batch_ms: int) -> None:
        batch: Produced = []
        for at_ms, pid in produced:
            if batch and at_ms // batch_ms > batch[0][0] // batch_ms:
                self.take(batch)
                batch = []
            batch.append((at_ms, pid))
        self.take(batch)


@pytest.mark.parametrize("batch_ms", [2500, 4500, 9000, MINUTE_MS])
def test_learned_producers_that_produce_once_an_hour_are_never_charged(batch_ms: int) -> None:
    stream = Stream(quota=100, learn_ms=HOUR_MS)
    produced = [(hour * HOUR_MS + 30 * SECOND_MS + pid * 45, pid) for hour in range(12) for pid in range(PRODUCERS)]

    stream.take_in_batches(produced, batch_ms)

    assert (sum(stream.charged.values()), stream.throttles) == (0, 0)


@pytest.mark.parametrize(
    ("hours", "batch_ms"),
    [
        (3, 5 * SECOND_MS),
        (3, MINUTE_MS),
        *(pytest.param(12, batch_ms, marks=pytest.mark.slow) for batch_ms in (SECOND_MS, 5 * SECOND_MS, MINUTE_MS)),
    ],
)
def test_producers_with_gaps_below_a_window_are_charged_once(hours: int, batch_ms: int) -> None:
    random, produced = np.random.default_rng(1), []
    for pid in range(PRODUCERS):
        at_ms = int(random.integers(HOUR_MS))
        while at_ms < hours * HOUR_MS:
            produced.append((at_ms, pid))
            at_ms += min(HOUR_MS - 1, round(random.exponential(15 * MINUTE_MS)))
    stream = Stream(quota=1000)

    stream.take_in_batches(sorted(produced), batch_ms)

    assert (sum(stream.charged.values()), stream.throttles) == (PRODUCERS, 0)

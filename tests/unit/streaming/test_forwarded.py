"""Repeats of earlier batches that never reach the operator: nothing that is decided or stored changes by it."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quota.config import TICKS_PER_QUANTUM, QuotaConfig
from quota.limits import UNLIMITED, Limit, Quotas
from state.events import CHARGED, LEARNING, Deployment, Events, MetricsRow
from state.ledger import Ledger
from streaming.batch import tasks
from streaming.decode import forwarded
from streaming.decode.forwarded import (
    Attempt,
    EventColumns,
    Forwarded,
    ForwardedTick,
    PartitionMemory,
    WorkerMemory,
    repeats_in_block,
)
from tests.kits.batch_kit import pre_aggregate_of, run_batch
from tests.kits.exploded_kit import event_table, exploded
from tests.kits.packed_kit import in_order, unpacked

if TYPE_CHECKING:
    from quota.decision import Decision

NOW_MS = 1_790_000_000_000
DEPLOYMENT = Deployment(salt=3)
PRE_AGGREGATE = pre_aggregate_of(DEPLOYMENT)
QUANTUM_MS = DEPLOYMENT.config.quantum_ms
TICK_MS = QUANTUM_MS // TICKS_PER_QUANTUM
Event = tuple[int, int, int]
"""PID, milliseconds since the event before, kind."""

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from([0, 0, 0, 500, 4_000, -3_000, 11_000, -12_000, 400_000, -QUANTUM_MS, QUANTUM_MS]),
        st.sampled_from([CHARGED, CHARGED, CHARGED, LEARNING]),
    ),
    min_size=1,
    max_size=12,
)
BATCHES = st.lists(
    st.tuples(EVENTS, st.integers(0, 1), st.sampled_from(["", "", "", "retry", "restart"])), min_size=1, max_size=12
)


def table(events: list[Event], at_ms: int, offset: int) -> pa.Table:
    times = at_ms + np.cumsum([step_ms for _, step_ms, _ in events])
    offsets = range(offset, offset + len(events))
    return event_table(
        [pid for pid, _, _ in events],
        times.tolist(),
        offset=offsets,
        # A repeat may come from another address.
        address=[f"10.0.0.{number % 3}" for number in offsets],
        learning=[kind == LEARNING for _, _, kind in events],
    )


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1))), max_size=20)
)
def test_the_pid_just_before_is_found_however_large_pids_are(rows: list[tuple[int, int]]) -> None:
    owner, pid = (np.array([row[column] for row in rows], np.int64) for column in (0, 1))
    same = np.zeros(len(rows), np.int64)

    repeats = repeats_in_block(EventColumns(owner, pid, same, same), late_ticks=10)

    assert repeats.tolist() == [row in rows[:number] for number, row in enumerate(rows)]


def final(rows: Iterable[MetricsRow]) -> dict[int, MetricsRow]:
    return {row.window_end_ms: replace(row, late_pids=0) for row in sorted(rows, key=lambda row: row.as_of_ms)}


class Fed:
    """A ledger, stored between batches, and all it said."""

    def __init__(self) -> None:
        self.stored: bytes | None = None
        self.decisions: list[Decision] = []
        self.metrics: list[MetricsRow] = []
        self.events = 0

    def feed(self, events: Events | None, rate: float) -> None:
        if events is None:
            return
        ledger = Ledger("User:a", DEPLOYMENT, self.stored)
        outcome = ledger.process(events, Limit(rate, "user"))
        self.events += len(events.pids)
        self.decisions += outcome.decisions
        self.metrics += outcome.metrics
        self.stored = outcome.content


def pre_aggregated(events: pa.Table, memory: PartitionMemory | None) -> Events | None:
    memories = {} if memory is None else {0: memory}
    packed = [packed for _, packed in PRE_AGGREGATE.packing.rows(exploded(events), memories)]
    return in_order([unpacked(each) for each in packed]) if packed else None


@given(batches=BATCHES, rate=st.sampled_from([2.0, 700.0]))
def test_whoever_reads_a_batch_and_however_often_the_ledger_is_the_same(
    batches: list[tuple[list[Event], int, str]], rate: float
) -> None:
    workers, run = [Forwarded(), Forwarded()], 0
    with_memory, without = Fed(), Fed()
    at_ms, offset, attempt = NOW_MS, 0, 0
    for batch_id, (events, worker, trouble) in enumerate(batches):
        rows, last = table(events, at_ms, offset), offset + len(events) - 1
        run += trouble == "restart"
        for lost in (True, False) if trouble == "retry" else (False,):
            # An attempt that fails has filled its worker's memory, and what it yielded goes nowhere.
            attempt += 1
            memory = workers[worker ^ lost].of(Attempt(f"run-{run}", batch_id, attempt), "t", 0, offset, last)
            read = pre_aggregated(rows, memory)
        with_memory.feed(read, rate)
        without.feed(pre_aggregated(rows, None), rate)
        at_ms, offset = at_ms + sum(step_ms for _, step_ms, _ in events), last + 1

    assert with_memory.stored == without.stored
    assert with_memory.decisions == without.decisions
    assert final(with_memory.metrics) == final(without.metrics)
    assert with_memory.events <= without.events


REFUSED = 99
REFUSES = [(pid, 0, CHARGED) for pid in range(4)] + [(REFUSED, 0, CHARGED)]


def left_out(batches: list[list[Event]], deployment: Deployment = DEPLOYMENT) -> bool:
    """Whether the first event of the last batch is left out by the worker that read the others. Nobody fails."""
    worker, pre_aggregate = Forwarded(), pre_aggregate_of(deployment)
    at_ms, offset = NOW_MS, 0
    first: list[int] = []
    for batch_id, events in enumerate(batches):
        last = offset + len(events) - 1
        memory = worker.of(Attempt("run", batch_id, batch_id), "t", 0, offset, last)
        rows = pre_aggregate.packing.rows(exploded(table(events, at_ms, offset)), {0: memory})
        packed = [packed for _, packed in rows]
        first = list(in_order([unpacked(each) for each in packed]).pids[:1]) if packed else []
        at_ms, offset = at_ms + sum(step_ms for _, step_ms, _ in events), last + 1
    return first != [batches[-1][0][0]]


def test_a_refused_pid_is_forwarded_again_once_a_late_event_may_have_made_it_known() -> None:
    late, again = (REFUSED, -QUANTUM_MS, CHARGED), (REFUSED, QUANTUM_MS, CHARGED)

    assert left_out([REFUSES, [(REFUSED, 0, CHARGED)]])
    assert not left_out([REFUSES, [late], [again]]), "a late event in a batch between"
    assert not left_out([[*REFUSES, late], [again]]), "a late event in the same batch"


@pytest.mark.parametrize("older", [(7, 99, CHARGED), (7, 99, LEARNING), (8, 99, CHARGED)])
def test_an_older_event_that_is_not_late_leaves_a_repeat_out(older: tuple[int, int, int]) -> None:
    memory = PartitionMemory(Attempt("run", 0, 0), 0)
    memory.repeats(["User:a"], of_one_principal([(7, 100, CHARGED), older]), late_ticks=30)

    assert memory.repeats(["User:a"], of_one_principal([(7, 100, CHARGED)]), late_ticks=30).tolist() == [True]


def of_one_principal(events: list[tuple[int, int, int]]) -> EventColumns:
    pid, tick, kind = (np.array(column, np.int64) for column in zip(*events, strict=True))
    return EventColumns(np.zeros(len(events), np.int64), pid, tick, kind)


@pytest.mark.parametrize(
    ("between", "kind", "is_repeat"),
    [
        ((2, 100), 0, True),
        ((1, 99), 0, False),
        ((2, 101), 0, False),
        ((2, 90), 0, False),
        ((2, 91), 0, True),
        ((2, 100), 1, False),
    ],
    ids=["the same tick", "its own older", "a newer one", "a late one", "an older one", "of another kind"],
)
def test_within_a_block_a_repeat_is_left_out_while_the_principal_s_time_stands_still(
    between: tuple[int, int], kind: int, is_repeat: bool
) -> None:
    pids, ticks = np.array([1, between[0], 1]), np.array([100, between[1], 100])
    seen = EventColumns(np.zeros(3, np.int64), pids, ticks, np.array([0, 0, kind]))

    assert repeats_in_block(seen, late_ticks=10).tolist() == [False, False, is_repeat]


def test_a_late_event_of_another_principal_leaves_a_repeat_out() -> None:
    owner, pid, tick = (np.array(each) for each in ([0, 1, 1, 0], [7, 8, 9, 7], [100, 100, 60, 100]))

    assert repeats_in_block(EventColumns(owner, pid, tick, np.zeros(4)), late_ticks=30).tolist() == [False] * 3 + [True]


def test_a_repeat_is_left_out_though_the_batch_goes_on_to_the_next_tick() -> None:
    memory = PartitionMemory(Attempt("run", 0, 0), 0)
    memory.repeats(["User:a"], of_one_principal([(7, 100, CHARGED)]), late_ticks=30)

    both = of_one_principal([(7, 100, CHARGED), (7, 101, CHARGED)])

    assert memory.repeats(["User:a"], both, late_ticks=30).tolist() == [True, False]


def test_a_flood_does_not_fill_the_worker() -> None:
    worker = Forwarded()
    worker.of(Attempt("run", 0, 1), "t", 0, 0, 9).principals["User:flood"] = ForwardedTick(
        0, dict.fromkeys(range(600_000), 0)
    )

    assert worker.of(Attempt("run", 1, 2), "t", 0, 10, 19).pids() == 0


def test_without_a_grace_an_event_of_the_tick_before_is_late_already() -> None:
    strict = Deployment(QuotaConfig(late_grace_seconds=0), salt=3)
    ledger = Ledger("User:a", strict)
    times = [NOW_MS, NOW_MS - TICK_MS]

    outcome = ledger.process(Events([1, 2], times, [("", "")] * 2, [CHARGED] * 2), Limit(2.0, "user"))
    batches = [REFUSES, [(REFUSED, -TICK_MS, CHARGED)], [(REFUSED, TICK_MS, CHARGED)]]

    assert outcome.metrics[-1].late_pids == 1
    assert (left_out(batches), left_out(batches, strict)) == (True, False)


def remembered(worker: Forwarded, attempt: Attempt, offset: int) -> bool:
    """Whether the one event of a batch, the same as the one before, is left out."""
    events = table([(7, 0, 0)], NOW_MS, offset)
    return pre_aggregated(events, worker.of(attempt, "t", 0, offset, offset)) is None


def test_a_repeat_is_left_out_only_by_the_worker_that_read_the_batch_before_in_the_same_run() -> None:
    worker = Forwarded()
    assert not remembered(worker, Attempt("run", 0, 1), 10)
    assert remembered(worker, Attempt("run", 1, 2), 11)

    assert not remembered(Forwarded(), Attempt("run", 2, 3), 12), "another worker"
    assert not remembered(worker, Attempt("run", 2, 3), 13), "offset 12 was read elsewhere"
    assert not remembered(worker, Attempt("run", 2, 4), 14), "another attempt of the same batch"
    assert not remembered(worker, Attempt("new run", 3, 5), 15), "after a restart"
    assert remembered(worker, Attempt("new run", 4, 6), 16)
    assert not remembered(worker, Attempt("new run", 5, 7, quotas_id="5"), 17), "under other quotas"
    assert remembered(worker, Attempt("new run", 6, 8, quotas_id="5"), 18)
    assert not remembered(worker, Attempt("new run", 7, 9, quotas_id="5"), 18), "offset 18 was read already"


def test_an_attempt_is_known_by_its_batch_and_the_quotas_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch_id, default in enumerate((UNLIMITED, UNLIMITED, Limit(5.0, "default"))):
        run_batch(tmp_path, batch_id, quotas=Quotas({}, default))
    properties = {"spark.jobGroup.id": "run"}
    context = SimpleNamespace(
        getLocalProperty=properties.get, taskAttemptId=lambda: int(properties["streaming.sql.batchId"])
    )
    for module in (forwarded, tasks):
        monkeypatch.setattr(module, "TaskContext", SimpleNamespace(get=lambda: context))

    found = []
    for batch_id in range(3):
        properties["streaming.sql.batchId"] = str(batch_id)
        attempt = WorkerMemory(str(tmp_path)).attempt()
        assert attempt
        assert attempt == Attempt("run", batch_id, batch_id, attempt.quotas_id)
        found.append(attempt.quotas_id)
    assert found[0] == found[1] != found[2]

    del properties["streaming.sql.batchId"]
    assert WorkerMemory(str(tmp_path)).attempt() is None


def test_the_later_blocks_of_an_attempt_go_on_from_its_earlier_ones() -> None:
    worker, attempt = Forwarded(), Attempt("run", 0, 1)
    assert not remembered(worker, attempt, 10)
    assert remembered(worker, attempt, 11)


def test_who_was_keyed_to_an_overflow_entry_is_not_remembered() -> None:
    worker = Forwarded()
    remembered(worker, Attempt("run", 0, 1), 10)
    worker.of(Attempt("run", 1, 2), "t", 0, 11, 10).forget("User:a")
    assert not remembered(worker, Attempt("run", 1, 2), 11)

"""The driver's thread that carries out decisions, with a topic in memory instead of Kafka."""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import Self

from broker.enforcement.enforcer import Note, Standing
from broker.enforcement.model import Limits
from broker.errors import BrokerUnreachableError
from jobs.stream import enforcing
from jobs.stream.enforcing import MAX_NOTES, EnforcingThread, HoldNotes, decision_of
from quota.limits import Limit, Quotas
from streaming.commit.sinks import BatchSummary
from tables.errors import TablesError
from tests.kits.hold_topic_kit import MemoryTopic
from tests.kits.plan_kit import ALICE, MALLORY, MINUTE_MS, NOW_MS, RATE, WINDOW_MS

LIMIT_S = 60
QUOTAS = Quotas({}, Limit(RATE, "default"))


def throttle(**more: Any) -> dict[str, Any]:
    """Return a row of `throttle_decisions` as a batch has it: a throttle of an hour."""
    row = {"decision_id": "d", "principal": MALLORY, "action": "THROTTLE", "decided_at": NOW_MS}
    row |= {"throttled_until": NOW_MS + 60 * MINUTE_MS, "tokens": -100.0, "quota": RATE, "refused_pids": 100}
    return row | more


class TestHoldNotes:
    def test_only_decisions_that_hold_nobody_make_a_row(self) -> None:
        notes = HoldNotes()
        for state in ("held", "would_hold", "left_out", "ended", "alert"):
            notes.add(Note(NOW_MS, state, MALLORY, "", "d", NOW_MS + 1, 36_000), "stream-1")
        assert [row["state"] for row in notes.pending()] == ["would_hold", "left_out"]
        assert notes.pending()[0] == {
            "recorded_at": NOW_MS,
            "state": "would_hold",
            "principal": MALLORY,
            "decision_id": "d",
            "until": NOW_MS + 1,
            "writer": "stream-1",
            "reason": None,
            "init_every_ms": 36_000,
        }

    def test_rows_stay_until_they_are_written(self) -> None:
        notes = HoldNotes()
        for number in range(3):
            notes.add(Note(number, "left_out", MALLORY, "why"), "s")
        assert notes.pending() == notes.pending()
        notes.written(2)
        assert [row["recorded_at"] for row in notes.pending()] == [2]

    def test_rows_are_bounded_if_nobody_writes_them(self) -> None:
        notes = HoldNotes()
        for number in range(MAX_NOTES + 1):
            notes.add(Note(number, "left_out", MALLORY), "s")
        assert [notes.pending()[at]["recorded_at"] for at in (0, -1)] == [0, MAX_NOTES - 1]

    def test_a_copy_in_another_process_is_empty(self) -> None:
        notes = HoldNotes()
        notes.add(Note(NOW_MS, "left_out", MALLORY), "s")
        assert copy.copy(notes).pending() == []


def test_a_row_is_a_decision() -> None:
    decision = decision_of(throttle(refused_pids=None))
    assert (decision.principal, decision.throttled_until_ms, decision.is_throttle) == (
        MALLORY,
        NOW_MS + 60 * MINUTE_MS,
        True,
    )
    assert (decision.tokens, decision.quota, decision.refused_pids) == (-100.0, RATE, 0)
    assert not decision_of(throttle(action="RELEASE")).is_throttle


class Topic(MemoryTopic):
    """The topic in memory, in the place of `HoldTopic`. A broker with the authorizer is alive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    is_gone = False

    def is_stale(self) -> bool:
        was_gone, self.is_gone = self.is_gone, False
        return was_gone

    def poll(self, wait_s: float = 0) -> None:
        self.alive()
        super().poll(wait_s)


class Bench:
    """A thread, its topic, and what it printed. `failures` are raised, one after the other, when it connects."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topic = Topic(NOW_MS)
        self.topic.poll()
        self.failures: list[Exception] = []
        self.printed: list[str] = []
        self.notes = HoldNotes()
        self.connections = 0
        self._changed = threading.Condition()
        monkeypatch.setattr(enforcing, "HoldTopic", self._connect)
        monkeypatch.setattr(enforcing, "steady_ms", lambda: self.topic.steady_ms)
        for name in ("EVERY_S", "RETRY_S"):
            monkeypatch.setattr(enforcing, name, 0.01)

    def thread(self, *, enforce: bool = True) -> EnforcingThread:
        return EnforcingThread({}, Limits(enforce=enforce), WINDOW_MS, self.notes, self.say)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(is_so, LIMIT_S), self.printed

    def _connect(self, config: Mapping[str, str]) -> Topic:
        assert config == {}
        if self.failures:
            raise self.failures.pop(0)
        with self._changed:
            self.connections += 1
            self._changed.notify_all()
        return self.topic

    def say(self, text: str, _at: float) -> None:
        with self._changed:
            self.printed.append(text)
            self._changed.notify_all()


@contextmanager
def started(thread: EnforcingThread, read_quotas: Callable[[], Quotas] = lambda: QUOTAS) -> Iterator[None]:
    """Run the thread while the block runs."""
    thread.start("stream-1", read_quotas)
    try:
        yield
    finally:
        thread.close()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def batch(*rows: dict[str, Any]) -> BatchSummary:
    return BatchSummary(1, {"throttle_decisions": list(rows)}, 0.1, quotas=QUOTAS)


def test_without_enforce_the_outcome_is_told_and_nothing_is_written(bench: Bench) -> None:
    thread = bench.thread(enforce=False)
    with started(thread):
        thread.observe(batch(throttle()))
        bench.wait_for(lambda: len(bench.printed) == 1)
    assert bench.topic.of_holds() == []
    assert [row["state"] for row in bench.notes.pending()] == ["would_hold"]
    assert replace(thread.standing(), planned_s=0) == Standing(would_hold=1)
    assert thread.standing().planned_s > 0


def test_a_failure_is_told_once_and_the_thread_goes_on(bench: Bench) -> None:
    # given a topic that can't be read at first
    gone = BrokerUnreachableError("topic pid-quota-holds can't be read")
    bench.failures = [gone, gone, gone]
    thread = bench.thread()
    thread.observe(batch(throttle()))

    # when
    with started(thread):
        bench.wait_for(lambda: len(bench.printed) == 3)

    # then
    trouble, held, well = bench.printed
    assert trouble == "holds: topic pid-quota-holds can't be read"
    assert held.startswith(f"{MALLORY} is on hold")
    assert well == "holds: all is well again"


def test_a_thread_that_never_started_has_nothing_to_end(bench: Bench) -> None:
    thread = bench.thread()
    thread.close()
    assert thread.standing() == Standing()


def test_a_fault_that_nobody_foresaw_is_told_once_and_the_thread_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.failures = [ZeroDivisionError("a fault"), ZeroDivisionError("a fault")]
    thread = bench.thread()
    thread.observe(batch(throttle()))
    with started(thread):
        bench.wait_for(lambda: any("is on hold" in line for line in bench.printed))
    assert caplog.messages == ["holds: ZeroDivisionError: a fault"]


def test_quotas_are_read_again_though_no_batch_comes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # given a hold, and a quota that was removed while nobody produces
    monkeypatch.setattr(enforcing, "QUOTAS_EVERY_S", 0.0)
    found = [QUOTAS]
    thread = bench.thread()
    with started(thread, lambda: found[0]):
        thread.observe(batch(throttle()))
        bench.wait_for(lambda: len(bench.printed) == 1)
        found[0] = Quotas()
        bench.wait_for(lambda: f"{MALLORY} is no longer on hold" in bench.printed)
    assert bench.topic.of_holds()[-1].value is None


def metrics(principal: str = MALLORY, *, saturated: bool = False, phase: str = "enforcing") -> dict[str, Any]:
    return {"principal": principal, "saturated": saturated, "phase": phase}


def test_all_batches_that_were_committed_since_the_last_plan_count(bench: Bench) -> None:
    thread = bench.thread()
    thread.observe(batch(throttle()))
    thread.observe(batch(throttle(principal=ALICE)))
    with started(thread):
        bench.wait_for(lambda: len(bench.printed) == 2)
    assert {each.key for each in bench.topic.of_holds()} == {MALLORY.encode(), ALICE.encode()}


@pytest.mark.parametrize(
    ("row", "reason"),
    [(metrics(saturated=True), "its ledger is saturated"), (metrics(phase="learning"), "the stream learns")],
    ids=["saturated", "learning"],
)
def test_a_ledger_that_is_unsteady_holds_nobody(bench: Bench, row: dict[str, Any], reason: str) -> None:
    thread = bench.thread()
    rows = {"producer_id_metrics": [row], "throttle_decisions": [throttle()]}
    thread.observe(BatchSummary(1, rows, 0.1, quotas=QUOTAS))
    with started(thread):
        bench.wait_for(lambda: len(bench.printed) == 1)
    assert reason in bench.printed[0]
    assert bench.topic.of_holds() == []


def test_each_batch_brings_its_quotas(bench: Bench) -> None:
    thread = bench.thread()
    with started(thread):
        thread.observe(batch(throttle()))
        bench.wait_for(lambda: len(bench.printed) == 1)
        thread.observe(BatchSummary(2, {}, 0.1, quotas=Quotas()))
        bench.wait_for(lambda: len(bench.printed) == 2)
    assert bench.printed[1] == f"{MALLORY} is no longer on hold"


def test_a_restart_reads_the_quotas_before_its_first_plan(bench: Bench) -> None:
    """Without quotas, the plan would end all holds."""
    first = bench.thread()
    first.restore([throttle()])
    first.start("stream-1", lambda: QUOTAS)
    bench.wait_for(lambda: len(bench.printed) == 1)
    first.close()
    second = bench.thread()
    second.restore([throttle()])
    with started(second):
        bench.wait_for(lambda: len(bench.printed) == 2)
    assert all(each.value is not None for each in bench.topic.of_holds())


@pytest.mark.parametrize(
    "error", [TablesError("the table can't be read"), RuntimeError("Spark's own error")], ids=["known", "unknown"]
)
def test_quotas_that_can_t_be_read_do_not_end_the_thread(bench: Bench, error: Exception) -> None:
    errors = [error]

    def read() -> Quotas:
        if errors:
            raise errors.pop()
        return QUOTAS

    thread = bench.thread()
    thread.restore([throttle()])
    with started(thread, read):
        bench.wait_for(lambda: any("is on hold" in line for line in bench.printed))


def test_the_limits_and_the_window_reach_the_plan(bench: Bench) -> None:
    limits = Limits(enforce=True, never=frozenset({ALICE}))
    thread = EnforcingThread({}, limits, 2 * WINDOW_MS, bench.notes, bench.say)
    thread.observe(batch(throttle(), throttle(principal=ALICE)))
    with started(thread):
        bench.wait_for(lambda: len(bench.printed) == 2)
    assert bench.topic.state.holds.keys() == {MALLORY}
    assert bench.topic.state.holds[MALLORY].hold.init_every_ms == 72_000


def test_a_second_start_changes_nothing(bench: Bench) -> None:
    """The stream's queries start again after a step of the clock."""
    thread = bench.thread()
    for _ in range(2):
        thread.start("stream-1", lambda: QUOTAS)
    thread.close()

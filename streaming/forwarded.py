"""What a Python worker remembers of earlier batches: PIDs whose repeats change nothing, and need not be forwarded.

Within a tick a PID's fate is settled, so a repeat of it is a no-op, and in a steady stream nearly all events are
repeats. The tally drops those inside a batch; this memory drops those of the batches before. A principal whose events
are all repeats then costs nothing behind the tally, where each costs about a millisecond.

It is exact, since it only speaks of what surely reached the ledgers: an earlier batch of the same run, which is
committed, and only where this worker has read the partition without a gap since, so that it knows the principal's
time. Elsewhere it is empty, which costs time and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

_MAX_PIDS = 500_000
"""Per worker; beyond it starts anew. A flood is no repeat, and must not fill the worker."""
_NO_TICK = -1


@dataclass(frozen=True)
class Attempt:
    """One run of a task.

    Attributes:
        run_id: Of the streaming query: another one after each start.
        batch_id: Of the micro-batch.
        attempt_id: Of the task's attempt, unique in the application.
    """

    run_id: str
    batch_id: int
    attempt_id: int


@dataclass
class PartitionMemory:
    """What was forwarded of one topic partition.

    Attributes:
        attempt: That last wrote here.
        next_offset: First offset that it has not read.
        principals: By principal, the newest tick and, of that tick, how each PID was last counted.
    """

    attempt: Attempt
    next_offset: int
    principals: dict[str, tuple[int, dict[int, int]]] = field(default_factory=dict)

    def repeats(
        self, names: list[str], owner: np.ndarray, pid: np.ndarray, tick: np.ndarray, how: np.ndarray
    ) -> np.ndarray:
        """Mark the events that were forwarded before, and take note of the others.

        Args:
            names: Principals; the other arrays are of the same length, events in offset order.
            owner: Index into `names`.
            pid: Producer id.
            tick: Tick of the event.
            how: How it is counted: what must be alike in a repeat.
        """
        known = [self.principals.get(name) for name in names]
        newest = np.array([each[0] if each else _NO_TICK for each in known], np.int64)
        repeats = np.zeros(len(pid), bool)
        # While the principal's time stands still, that is before an event of a later tick.
        candidates = np.flatnonzero((tick == newest[owner]) & (newest_before(owner, tick) <= newest[owner]))
        for row in candidates.tolist():
            forwarded = known[owner[row]][1]
            key, value = int(pid[row]), int(how[row])
            repeats[row] = forwarded.get(key) == value
            forwarded[key] = value
        self._note(names, owner, pid, tick, how, newest)
        return repeats

    def forget(self, name: str) -> None:
        """Forget a principal: its events went elsewhere than to its own ledger."""
        self.principals.pop(name, None)

    def pids(self) -> int:
        """Return how many PIDs are remembered."""
        return sum(len(forwarded) for _, forwarded in self.principals.values())

    def _note(
        self,
        names: list[str],
        owner: np.ndarray,
        pid: np.ndarray,
        tick: np.ndarray,
        how: np.ndarray,
        newest: np.ndarray,
    ) -> None:
        """Remember the PIDs of ticks that are newer than any before."""
        latest = newest.copy()
        np.maximum.at(latest, owner, tick)
        for code in np.flatnonzero(latest > newest).tolist():
            self.principals[names[code]] = (int(latest[code]), {})
        rows = np.flatnonzero((tick == latest[owner]) & (latest > newest)[owner])
        for code, key, value in zip(owner[rows].tolist(), pid[rows].tolist(), how[rows].tolist(), strict=True):
            self.principals[names[code]][1][key] = value


def newest_before(owner: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Return each event's newest tick among those of its owner up to it."""
    # Owners come in ascending order here, so an offset per owner makes one running maximum serve them all.
    order = np.argsort(owner, kind="stable")
    base = owner[order].astype(np.int64) << 42
    newest = np.empty(len(tick), np.int64)
    newest[order] = np.maximum.accumulate(base + tick[order]) - base if len(tick) else 0
    return newest


Recall = Callable[[str, int, int, int], PartitionMemory]
"""Gives the memory of a partition, by topic, partition, first and last offset that are read now."""


class Forwarded:
    """The memory of one Python worker: a partition is read by one task at a time."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._partitions: dict[tuple[str, int], PartitionMemory] = {}

    def of(self, attempt: Attempt, topic: str, partition: int, first: int, last: int) -> PartitionMemory:
        """Return what may be relied on when an attempt reads the offsets `first` to `last` of a partition."""
        key = (topic, partition)
        known = self._partitions.get(key)
        if known is None or not _is_reliable(known, attempt) or known.next_offset != first:
            known = self._partitions[key] = PartitionMemory(attempt, first)
        if known.pids() > _MAX_PIDS:
            known.principals.clear()
        known.attempt, known.next_offset = attempt, last + 1
        return known


def _is_reliable(known: PartitionMemory, attempt: Attempt) -> bool:
    if known.attempt.run_id != attempt.run_id:
        return False
    # What an attempt of the same batch forwarded reached no ledger, unless it is this very attempt.
    return known.attempt.batch_id < attempt.batch_id or known.attempt == attempt


def attempt_of_task() -> Attempt | None:
    """Return the attempt that this worker is busy with; None outside a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    batch_id = context.getLocalProperty("streaming.sql.batchId") if context else None
    run_id = context.getLocalProperty("spark.jobGroup.id") if context else None
    if context is None or batch_id is None or run_id is None:
        return None
    return Attempt(run_id, int(batch_id), context.taskAttemptId())


_of_this_worker = Forwarded()


def memory_of_worker() -> Recall | None:
    """Return the memory that the running task may use; None outside a streaming query."""
    attempt = attempt_of_task()
    if attempt is None:
        return None
    return lambda topic, partition, first, last: _of_this_worker.of(attempt, topic, partition, first, last)

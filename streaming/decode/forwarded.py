"""Deduplicates across batches: each Python worker remembers the PIDs that it has forwarded to the operator.

Within a tick, a repeat of a PID changes nothing. In a steady stream, nearly all events are repeats. After the shuffle,
a principal costs about a millisecond per batch. A principal with only repeats costs nothing.

The memory is exact, because it has only PIDs from the same task attempt, or from earlier batches of the same query run
under the same quotas. After a gap in a partition's offsets, its memory is cleared, which changes no decision.
"""

from dataclasses import dataclass, field

import numpy as np
from pyspark import TaskContext

from streaming.batch.tasks import TaskBatch

_MAX_PIDS = 500_000
"""Above this number of PIDs, a partition's memory is cleared, because a flood of new PIDs must not exhaust the heap."""
_NO_TICK = -1


@dataclass(frozen=True)
class Attempt:
    """A task attempt.

    Attributes:
        run_id: Id of the query run, new at each start of the query.
        attempt_id: Id of the attempt, unique in the Spark application.
        quotas_id: Id of the quotas in force. Under other quotas, a refused PID may be admitted.
    """

    run_id: str
    batch_id: int
    attempt_id: int
    quotas_id: str = ""


@dataclass(frozen=True)
class EventColumns:
    """Events of one partition in offset order, as columns of the same length.

    Attributes:
        owner: Each event's principal, as an index into a list of names.
        kind: See `state.events.Events.kinds`. An event and its repeat have the same kind.
    """

    owner: np.ndarray
    pid: np.ndarray
    tick: np.ndarray
    kind: np.ndarray

    def __len__(self) -> int:
        return len(self.pid)

    def take(self, rows: np.ndarray) -> "EventColumns":
        """Return the events at the indexes `rows`."""
        return EventColumns(self.owner[rows], self.pid[rows], self.tick[rows], self.kind[rows])


@dataclass
class ForwardedTick:
    """The PIDs that were forwarded in a principal's newest tick.

    Attributes:
        pids: The last kind of each PID. An event of this tick with the same PID and kind is a repeat.
    """

    tick: int
    pids: dict[int, int] = field(default_factory=dict)

    def repeats(self, pid: int, tick: int, kind: int, *, is_late: bool) -> bool:
        """Return whether an event is a repeat, and remember the event.

        Args:
            pid: The event's PID.
            tick: The event's tick. It must not be later than `self.tick`.
            kind: The event's kind.
            is_late: Whether the event may be late. A late event makes a refused PID known, because the ledger stores
                the PID without charge.
        """
        is_repeat = not is_late and tick == self.tick and self.pids.get(pid) == kind
        if is_late:
            self.pids.clear()
        elif tick == self.tick:
            self.pids[pid] = kind
        return is_repeat


NOTHING_FORWARDED = ForwardedTick(_NO_TICK)


@dataclass
class PartitionMemory:
    """The PIDs that were forwarded from one topic partition.

    Attributes:
        attempt: The last attempt that wrote to this memory.
        next_offset: First offset that the attempt has not read.
    """

    attempt: Attempt
    next_offset: int
    principals: dict[str, ForwardedTick] = field(default_factory=dict)

    def repeats(self, names: list[str], seen: EventColumns, late_ticks: int) -> np.ndarray:
        """Return a mask of the repeats, and remember the other events.

        Args:
            names: The principals that `seen.owner` refers to.
            seen: The events.
            late_ticks: An event may be late if its principal's newest event is at least this number of ticks newer.
        """
        known = [self.principals.get(name, NOTHING_FORWARDED) for name in names]
        newest = np.array([each.tick for each in known], np.int64)
        latest = newest.copy()
        np.maximum.at(latest, seen.owner, seen.tick)
        time = np.maximum(newest_before(seen.owner, seen.tick), newest[seen.owner])
        late = seen.tick <= time - late_ticks
        # `time` is the principal's newest tick at each event. Only two kinds of events matter. Events before the first
        # change of `time` can repeat remembered events. Events after its last change are remembered.
        counts = np.flatnonzero((time == newest[seen.owner]) | (time == latest[seen.owner]))
        repeats = np.zeros(len(seen), bool)
        columns = (column[counts].tolist() for column in (seen.owner, seen.pid, seen.tick, seen.kind, time, late))
        for row, owner, pid, tick, kind, now, is_late in zip(counts.tolist(), *columns, strict=True):
            if now > known[owner].tick:
                known[owner] = self.principals[names[owner]] = ForwardedTick(now)
            repeats[row] = known[owner].repeats(pid, tick, kind, is_late=is_late)
        return repeats

    def forget(self, name: str) -> None:
        """Forget a principal whose events went to a shared ledger instead of its own."""
        self.principals.pop(name, None)

    def pids(self) -> int:
        """Return the number of remembered PIDs."""
        return sum(len(each.pids) for each in self.principals.values())


def repeats_in_block(seen: EventColumns, late_ticks: int) -> np.ndarray:
    """Return a mask of the events that repeat their PID's previous event within a tick.

    Between the two events, the principal's newest tick must not change, and there must be no late
    event (see `ForwardedTick.repeats`).
    """
    owner, pid, tick, kind = seen.owner, seen.pid, seen.tick, seen.kind
    newest = newest_before(owner, tick)
    by_owner = np.argsort(owner, kind="stable")
    late = np.empty(len(seen), np.int64)
    late[by_owner] = np.cumsum((tick <= newest - late_ticks)[by_owner])
    by_pid = np.lexsort((pid, owner))
    here, before = by_pid[1:], by_pid[:-1]
    repeats = np.zeros(len(seen), dtype=bool)
    repeats[here] = (
        (owner[here] == owner[before])
        & (pid[here] == pid[before])
        & (tick[here] == tick[before])
        & (kind[here] == kind[before])
        & (tick[here] == newest[here])
        & (late[here] == late[before])
    )
    return repeats


def newest_before(owner: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Return for each event the newest tick of its owner's events up to and including the event."""
    # Events are sorted by owner. `base` rises with the owner, so one running maximum works for all owners.
    order = np.argsort(owner, kind="stable")
    base = owner[order].astype(np.int64) << 42
    newest = np.empty(len(tick), np.int64)
    newest[order] = np.maximum.accumulate(base + tick[order]) - base if len(tick) else 0
    return newest


class Forwarded:
    """The PIDs that one Python worker has forwarded. No two tasks read a partition at the same time."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, int], PartitionMemory] = {}

    def of(self, attempt: Attempt, topic: str, partition: int, first: int, last: int) -> PartitionMemory:
        """Return a partition's memory for an attempt that reads the offsets `first` to `last`."""
        key = (topic, partition)
        known = self._partitions.get(key)
        if known is None or not _is_reliable(known, attempt) or known.next_offset != first:
            known = self._partitions[key] = PartitionMemory(attempt, first)
        if known.pids() > _MAX_PIDS:
            known.principals.clear()
        known.attempt, known.next_offset = attempt, last + 1
        return known


def _is_reliable(known: PartitionMemory, attempt: Attempt) -> bool:
    if (known.attempt.run_id, known.attempt.quotas_id) != (attempt.run_id, attempt.quotas_id):
        return False
    # PIDs that another attempt of the same batch forwarded may not have reached a ledger.
    return known.attempt.batch_id < attempt.batch_id or known.attempt == attempt


_of_this_worker = Forwarded()


@dataclass(frozen=True)
class WorkerMemory:
    """Access to the memory of the worker in which a task runs."""

    checkpoint: str

    def recall(self, topic: str, partitions: np.ndarray, offsets: np.ndarray) -> dict[int, PartitionMemory]:
        """Return the memory of each partition in a block of the running task; empty outside a query.

        `partitions` and `offsets` have an entry for each record.
        """
        attempt = self.attempt()
        found: dict[int, PartitionMemory] = {}
        if attempt is None:
            return found
        for partition in np.unique(partitions).tolist():
            here = offsets[partitions == partition]
            found[partition] = self.forwarded().of(attempt, topic, partition, int(here.min()), int(here.max()))
        return found

    def forwarded(self) -> Forwarded:
        """Return the worker's memory."""
        return _of_this_worker

    def attempt(self) -> Attempt | None:
        """Return the running task attempt; None outside a streaming query."""
        context = TaskContext.get()
        batch_id = context.getLocalProperty("streaming.sql.batchId") if context else None
        run_id = context.getLocalProperty("spark.jobGroup.id") if context else None
        if context is None or batch_id is None or run_id is None:
            return None
        # `TaskBatch` reads the batch's files once per attempt.
        quotas_id = TaskBatch(self.checkpoint).quotas_id()
        return Attempt(run_id, int(batch_id), context.taskAttemptId(), quotas_id)

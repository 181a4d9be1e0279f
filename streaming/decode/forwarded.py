"""Deduplicates across batches: each Python worker remembers the PIDs that it has forwarded to the operator.

Within a tick, a repeat of a PID changes nothing, and in a steady stream nearly all events are repeats. The
pre-aggregation drops repeats within a block of records. This memory drops repeats of earlier blocks and batches. After
the shuffle, each principal costs about a millisecond per batch. A principal with only repeats costs nothing.

The memory is exact. It relies only on committed batches (earlier batches of the same run) and on its own task attempt,
and only if this worker has read the partition without a gap since, so that it knows the principal's time. Otherwise the
memory is empty, which costs time but changes no decision.
"""

from dataclasses import dataclass, field

import numpy as np
from pyspark import TaskContext

from streaming.batch.tasks import TaskBatch

_MAX_PIDS = 500_000
"""Maximum PIDs per partition. Beyond it, the memory is cleared: a flood has no repeats, and must not exhaust memory."""
_NO_TICK = -1


@dataclass(frozen=True)
class Attempt:
    """A task attempt.

    Attributes:
        run_id: Id of the streaming query's run, which changes with each start.
        attempt_id: Id of the attempt, unique in the application.
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
        owner: Principals, as indexes into a list of names.
        how: Kind and broker in one number. A repeat has the same number as the event that it repeats.
    """

    owner: np.ndarray
    pid: np.ndarray
    tick: np.ndarray
    how: np.ndarray

    def __len__(self) -> int:
        return len(self.pid)

    def take(self, rows: np.ndarray) -> "EventColumns":
        """Return some of the events."""
        return EventColumns(self.owner[rows], self.pid[rows], self.tick[rows], self.how[rows])


@dataclass
class ForwardedTick:
    """PIDs forwarded in a principal's newest tick. Another event in it with such a PID and its `how` changes nothing.

    Attributes:
        pids: The last `how` (see `EventColumns`) of each PID.
    """

    tick: int
    pids: dict[int, int] = field(default_factory=dict)

    def repeats(self, pid: int, tick: int, how: int, *, is_late: bool) -> bool:
        """Return whether an event is a repeat, and remember the event. It must not be of a later tick.

        Args:
            pid: Producer id of the event.
            tick: Tick of its timestamp.
            how: Kind and broker of the event (see `EventColumns`).
            is_late: Whether the event may be late. A late event is written to an older quantum, which may make a
                refused PID known.
        """
        is_repeat = not is_late and tick == self.tick and self.pids.get(pid) == how
        if is_late:
            self.pids.clear()
        elif tick == self.tick:
            self.pids[pid] = how
        elif self.pids.get(pid) != how:
            # The ledger of another broker may be behind this time. It may admit a PID that was refused here, and the
            # PID is then known.
            self.pids.pop(pid, None)
        return is_repeat


NOTHING_FORWARDED = ForwardedTick(_NO_TICK)


@dataclass
class PartitionMemory:
    """PIDs forwarded from one topic partition.

    Attributes:
        attempt: The last attempt that wrote to this memory.
        next_offset: First offset that this attempt has not read.
        principals: The PIDs forwarded in each principal's newest tick.
    """

    attempt: Attempt
    next_offset: int
    principals: dict[str, ForwardedTick] = field(default_factory=dict)

    def repeats(self, names: list[str], seen: EventColumns, late_ticks: int) -> np.ndarray:
        """Return a mask of the events that were forwarded before, and remember the others.

        Args:
            names: Principals.
            seen: Events of these principals.
            late_ticks: An event may be late if it is at least this number of ticks older than its principal's newest
                event. The memory then forgets the principal's PIDs (see `ForwardedTick.repeats`).
        """
        known = [self.principals.get(name, NOTHING_FORWARDED) for name in names]
        newest = np.array([each.tick for each in known], np.int64)
        latest = newest.copy()
        np.maximum.at(latest, seen.owner, seen.tick)
        time = np.maximum(newest_before(seen.owner, seen.tick), newest[seen.owner])
        late = seen.tick <= time - late_ticks
        # Forwarded PIDs count until the principal's time moves on. Of the events read now, only events at the newest
        # time are remembered for later batches.
        counts = np.flatnonzero((time == newest[seen.owner]) | (time == latest[seen.owner]))
        repeats = np.zeros(len(seen), bool)
        columns = (column[counts].tolist() for column in (seen.owner, seen.pid, seen.tick, seen.how, time, late))
        for row, owner, pid, tick, how, now, is_late in zip(counts.tolist(), *columns, strict=True):
            if now > known[owner].tick:
                known[owner] = self.principals[names[owner]] = ForwardedTick(now)
            repeats[row] = known[owner].repeats(pid, tick, how, is_late=is_late)
        return repeats

    def forget(self, name: str) -> None:
        """Forget a principal: its events went to an overflow entry, not to its own ledger."""
        self.principals.pop(name, None)

    def pids(self) -> int:
        """Return how many PIDs are remembered."""
        return sum(len(each.pids) for each in self.principals.values())


def repeats_in_block(seen: EventColumns, late_ticks: int) -> np.ndarray:
    """Return a mask of the events that repeat their PID's previous event within a tick, which changes nothing.

    Each event is compared only with the PID's previous event, because an event of another tick, kind or broker may have
    changed the PID's state. An event is a repeat only if the principal's newest tick, over all brokers, has not changed
    in between, and if no late event came in between (see `PartitionMemory.repeats`).
    """
    owner, pid, tick, how = seen.owner, seen.pid, seen.tick, seen.how
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
        & (how[here] == how[before])
        & (tick[here] == newest[here])
        & (late[here] == late[before])
    )
    return repeats


def newest_before(owner: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Return for each event the newest tick of its owner's events up to this one."""
    # Sort by owner. An ascending offset per owner makes one running maximum work for all owners.
    order = np.argsort(owner, kind="stable")
    base = owner[order].astype(np.int64) << 42
    newest = np.empty(len(tick), np.int64)
    newest[order] = np.maximum.accumulate(base + tick[order]) - base if len(tick) else 0
    return newest


class Forwarded:
    """The memory of one Python worker. A partition is read by one task at a time."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, int], PartitionMemory] = {}

    def of(self, attempt: Attempt, topic: str, partition: int, first: int, last: int) -> PartitionMemory:
        """Return the reliable memory of a partition for an attempt that reads the offsets `first` to `last`."""
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
    # The PIDs that another attempt of the same batch forwarded may have reached no ledger.
    return known.attempt.batch_id < attempt.batch_id or known.attempt == attempt


_of_this_worker = Forwarded()


@dataclass(frozen=True)
class WorkerMemory:
    """The memory of the worker that a task runs in. Spark serializes this object to the workers.

    Attributes:
        checkpoint: Folder of the stream's checkpoint.
    """

    checkpoint: str

    def recall(self, topic: str, partitions: np.ndarray, offsets: np.ndarray) -> dict[int, PartitionMemory]:
        """Return the reliable memories for a block of the running task, by partition; empty outside a query.

        Args:
            topic: Topic of the block.
            partitions: Partition of each record.
            offsets: Offset of each record.
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
        """Return this worker's memory."""
        return _of_this_worker

    def attempt(self) -> Attempt | None:
        """Return the running task attempt; None outside a streaming query."""
        context = TaskContext.get()
        batch_id = context.getLocalProperty("streaming.sql.batchId") if context else None
        run_id = context.getLocalProperty("spark.jobGroup.id") if context else None
        if context is None or batch_id is None or run_id is None:
            return None
        # `TaskBatch` reads the batch's files once per attempt, not once per block.
        quotas_id = TaskBatch(self.checkpoint).quotas_id()
        return Attempt(run_id, int(batch_id), context.taskAttemptId(), quotas_id)

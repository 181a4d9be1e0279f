"""Metadata of a task's micro-batch, from the driver's files in the checkpoint."""

import gc
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pyspark import TaskContext

from quota.limits import Quotas
from streaming.batch.batch_ends import event_times_before, tracked_principals_before
from streaming.batch.batch_quotas import BatchInput, input_of, quotas_of_id
from streaming.batch.event_times import EventTimes
from streaming.batch.tracked_principals import TrackedPrincipals
from streaming.checkpoint.spark_files import batch_begin_ms, batch_offsets, newest_batch


def batch_of_task(checkpoint: str) -> int:
    """Return the number of this task's micro-batch; 0 if no batch has begun.

    With Spark Connect, tasks do not know the number. The function then returns the newest batch that has begun.
    """
    task = TaskContext.get()
    batch_id = task and task.getLocalProperty("streaming.sql.batchId")
    return int(batch_id) if batch_id else newest_batch(checkpoint) or 0


@dataclass(frozen=True)
class TaskBatch:
    """The micro-batch of the running task. Spark sends copies of this object to the workers."""

    checkpoint: str

    def begin_ms(self) -> int | None:
        """Return the driver's time when the batch began; None if unknown."""
        return self._files().begin_ms

    def partitions(self) -> int:
        """Return the number of the batch's topic partitions."""
        return sum(map(len, batch_offsets(self.checkpoint, batch_of_task(self.checkpoint)).values()))

    def quotas(self) -> Quotas:
        """Return the quotas in force. Raises the same errors as `quotas_of_id`."""
        return self._files().quotas

    def next_producer_id(self) -> int | None:
        """Return the lowest PID that was not handed out when the batch began; None if unknown.

        Raises the same errors as `input_of`.
        """
        return self._files().input.next_producer_id

    def tracked_principals(self) -> TrackedPrincipals:
        """Return the principals with a ledger of their own before the batch."""
        return self._files().tracked_principals

    def event_times(self) -> EventTimes:
        """Return the maximum event times before the batch."""
        return self._files().event_times

    def _files(self) -> "_Files":
        attempt = _attempt_id()
        return _Files(self.checkpoint) if attempt is None else _files_of(self.checkpoint, attempt)


class _Files:
    """The driver's files for one task attempt. Each file is read on first use."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint, self._batch_id = checkpoint, batch_of_task(checkpoint)

    @cached_property
    def begin_ms(self) -> int | None:
        return batch_begin_ms(self._checkpoint, self._batch_id)

    @cached_property
    def input(self) -> BatchInput:
        return input_of(self._checkpoint, self._batch_id)

    @cached_property
    def quotas(self) -> Quotas:
        return quotas_of_id(self._checkpoint, self.input.quotas_id)

    @cached_property
    def tracked_principals(self) -> TrackedPrincipals:
        return tracked_principals_before(self._checkpoint, self._batch_id)

    @cached_property
    def event_times(self) -> EventTimes:
        return event_times_before(self._checkpoint, self._batch_id)


@lru_cache(maxsize=4)
def _files_of(checkpoint: str, _attempt_id: int) -> _Files:
    # A task needs the files for each principal. A repeated batch may have other files, so cache the files by attempt.
    return _Files(checkpoint)


def _attempt_id() -> int | None:
    task = TaskContext.get()
    return task.taskAttemptId() if task else None


@dataclass
class _Frozen:
    """The number of loaded modules at the last `gc.freeze`."""

    modules: int = 0


_frozen = _Frozen()


def freeze_gc() -> None:
    """If the worker has loaded modules since the last call, exclude all existing objects from garbage collection.

    PySpark runs a full collection after every task (`manager` in `pyspark/daemon.py`), which takes about 100 ms.
    """
    if len(sys.modules) > _frozen.modules and TaskContext.get():
        _frozen.modules = len(sys.modules)
        gc.collect()
        gc.freeze()

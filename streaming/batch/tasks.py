"""The facts of a task's micro-batch, from the driver's file in the checkpoint."""

import gc
import sys
from dataclasses import dataclass
from functools import lru_cache

from pyspark import TaskContext

from streaming.batch.context import BatchContext, read_context
from streaming.checkpoint.spark_files import newest_batch


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

    def context(self) -> BatchContext:
        """Return the facts of the batch. Each task attempt reads them once.

        Raises:
            CheckpointError: If the driver's file does not appear, or can't be read.
        """
        task = TaskContext.get()
        if task is None:
            return read_context(self.checkpoint, batch_of_task(self.checkpoint))
        return _context_of(self.checkpoint, task.taskAttemptId())


@lru_cache(maxsize=4)
def _context_of(checkpoint: str, _attempt_id: int) -> BatchContext:
    # A task needs the facts for each principal. A repeated batch may have other facts, so cache them by attempt.
    return read_context(checkpoint, batch_of_task(checkpoint))


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

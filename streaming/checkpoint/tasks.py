"""What a task knows of the micro-batch that it belongs to."""

import gc
import sys
from dataclasses import dataclass

from pyspark import TaskContext

from streaming.checkpoint.spark_files import batch_begin_ms, newest_batch


def batch_of_task(checkpoint: str) -> int:
    """Return the number of this task's micro-batch; 0 if none ever began.

    Over Spark Connect a batch runs in a thread of the server's that was not told its number. It is the newest that
    began then, since a checkpoint has one batch at a time.
    """
    task = TaskContext.get()
    told = task and task.getLocalProperty("streaming.sql.batchId")
    return int(told) if told else newest_batch(checkpoint) or 0


@dataclass(frozen=True)
class BatchClock:
    """Tells a task when its batch began.

    Attributes:
        checkpoint: Folder of the stream's checkpoint.
    """

    checkpoint: str

    def __call__(self) -> int | None:
        """Return the driver's clock at the begin of this task's batch, in ms since the epoch; None if nobody knows."""
        return batch_begin_ms(self.checkpoint, batch_of_task(self.checkpoint))


def nobody_knows() -> None:
    """Return that there is no such clock."""


def attempt_id() -> int | None:
    """Return what names this run of the task, and no other of the application; None outside of Spark."""
    task = TaskContext.get()
    return task.taskAttemptId() if task else None


class Kept:
    """What a worker has taken out of the garbage collector's sight: all that was loaded with so many modules."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.modules = 0


_kept = Kept()


def keep_modules() -> None:
    """Take what this worker has loaded out of the garbage collector's sight, whenever it has loaded more.

    PySpark collects all garbage after every task (`manager` in `pyspark/daemon.py`), and its worker takes no other task
    before that: it walks through all that pandas, pyarrow and we have loaded, for some 100 ms. What is kept here is
    hardly ever garbage; all that comes later is collected as before.
    """
    if len(sys.modules) > _kept.modules and TaskContext.get():
        _kept.modules = len(sys.modules)
        gc.collect()
        gc.freeze()

"""What a task knows of the micro-batch that it belongs to."""

from pyspark import TaskContext

from streaming.checkpoint import newest_batch


def batch_of_task(checkpoint: str) -> int:
    """Return the number of this task's micro-batch; 0 if none ever began.

    Over Spark Connect a batch runs in a thread of the server's that was not told its number. It is the newest that
    began then, since a checkpoint has one batch at a time.
    """
    task = TaskContext.get()
    told = task and task.getLocalProperty("streaming.sql.batchId")
    return int(told) if told else newest_batch(checkpoint) or 0


def attempt_id() -> int | None:
    """Return what names this run of the task, and no other of the application; None outside of Spark."""
    task = TaskContext.get()
    return task.taskAttemptId() if task else None

"""What holds after a batch: the tracked principals and the event times, which the tasks of the next batch read.

The driver writes it under the number of the batch, before Spark commits the batch. A repeated batch reads again what
the batch before it wrote.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from streaming.batch.batch_files import BatchFiles
from streaming.batch.event_times import MAX_EVENT_TIME, EventTimes
from streaming.batch.tracked_principals import NOTES, TrackedPrincipals, apply_notes, tracked_files
from streaming.checkpoint.commit_metadata import WRITE_ORDER

FOLDER = "pid-quota-batch-ends"


class BatchEnd(msgspec.Struct, frozen=True, array_like=True):
    """What holds after a batch.

    Attributes:
        tracked: Name of the file with the tracked principals; empty if there are none.
        event_times: Maximum event time of each partition.
        written: Newest batch with rows, by table.
    """

    tracked: str = ""
    event_times: EventTimes = EventTimes()
    written: dict[str, int] = {}


def end_before(checkpoint: str, batch_id: int) -> BatchEnd:
    """Return what holds for a batch: the end of the batch before it; nothing for the first.

    Raises:
        CheckpointError: If it does not appear, or can't be read.
    """
    return _files(checkpoint).read(batch_id - 1) if batch_id > 0 else BatchEnd()


def tracked_principals_before(checkpoint: str, batch_id: int) -> TrackedPrincipals:
    """Return the principals tracked before a batch.

    Raises:
        CheckpointError: If they do not appear, or can't be read.
    """
    return _tracked(checkpoint, end_before(checkpoint, batch_id))


def event_times_before(checkpoint: str, batch_id: int) -> EventTimes:
    """Return the maximum event times before a batch.

    Raises:
        CheckpointError: If they do not appear, or can't be read.
    """
    return end_before(checkpoint, batch_id).event_times


def written_batches(checkpoint: str, begun: int) -> dict[str, int]:
    """Return the newest batch that wrote rows, by table, as of the newest end that is there; empty if it is not."""
    # Of the batch that began last there is an end if it was about to be committed.
    ends = (_files(checkpoint).glance(batch_id) for batch_id in (begun, begun - 1))
    return next((end.written for end in ends if end is not None), {})


def write_end(checkpoint: str, batch_id: int, reported: Mapping[str, Sequence[Any]]) -> None:
    """Write what holds after a batch; idempotent for a repeated batch.

    Args:
        checkpoint: Folder of the checkpoint.
        batch_id: The batch.
        reported: Bodies of the operator's rows, by kind.
    """
    before = end_before(checkpoint, batch_id)
    name = before.tracked
    if any(reported.get(kind) for kind in NOTES):
        tracked = apply_notes(_tracked(checkpoint, before), batch_id, reported)
        name = tracked_files(checkpoint).write(tracked, before.tracked)
    times = before.event_times.after(reported.get(MAX_EVENT_TIME, ()))
    written = before.written | {table: batch_id for table in WRITE_ORDER if reported.get(table)}
    _files(checkpoint).write(batch_id, BatchEnd(name, times, written))


def _tracked(checkpoint: str, end: BatchEnd) -> TrackedPrincipals:
    return tracked_files(checkpoint).read(end.tracked) if end.tracked else TrackedPrincipals()


def _files(checkpoint: str) -> BatchFiles[BatchEnd]:
    return BatchFiles(checkpoint, FOLDER, BatchEnd)

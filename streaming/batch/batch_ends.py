"""The state after a batch, for the tasks of the next batch: principals with a ledger of their own, and event times.

The driver writes a file per batch before Spark commits the batch. So a repeated batch reads the same file again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from streaming.batch.batch_files import BatchFiles
from streaming.batch.event_times import MAX_EVENT_TIME, EventTimes
from streaming.batch.tracked_principals import NOTES, TrackedPrincipals, apply_notes, tracked_files
from streaming.checkpoint.commit_metadata import WRITE_ORDER
from streaming.checkpoint.spark_files import newest_batch

FOLDER = "pid-quota-batch-ends"


class BatchEnd(msgspec.Struct, frozen=True, array_like=True):
    """The principals with a ledger of their own, and the event times, after a batch.

    Attributes:
        tracked: Name of the file that lists the principals; empty if there are none.
        written: Number of the newest batch that wrote rows, by table.
    """

    tracked: str = ""
    event_times: EventTimes = EventTimes()
    written: dict[str, int] = {}


def end_before(checkpoint: str, batch_id: int) -> BatchEnd:
    """Return the end of the batch before `batch_id`, or an empty end before the first batch.

    Raises:
        CheckpointError: If the file of that end does not appear, or can't be read.
    """
    return _files(checkpoint).read(batch_id - 1) if batch_id > 0 else BatchEnd()


def tracked_principals_before(checkpoint: str, batch_id: int) -> TrackedPrincipals:
    """Return the principals with a ledger of their own before a batch. Raises the same errors as `end_before`."""
    return _tracked(checkpoint, end_before(checkpoint, batch_id))


def event_times_before(checkpoint: str, batch_id: int) -> EventTimes:
    """Return the maximum event times before a batch. Raises the same errors as `end_before`."""
    return end_before(checkpoint, batch_id).event_times


def written_batches(checkpoint: str) -> dict[str, int]:
    """Return the number of the newest batch that wrote rows, by table; empty if no batch has ended."""
    begun = newest_batch(checkpoint)
    # The newest batch may have no end yet.
    ends = () if begun is None else (_files(checkpoint).glance(batch_id) for batch_id in (begun, begun - 1))
    return next((end.written for end in ends if end is not None), {})


def write_end(checkpoint: str, batch_id: int, reported: Mapping[str, Sequence[Any]]) -> None:
    """Write a batch's end. `reported` holds the bodies of the operator's rows, by kind (`streaming.operator.rows`)."""
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

"""The facts of one micro-batch. The driver writes them to one file per batch, and each task reads the file once.

When a batch begins, its file holds all that its tasks need. When the tables have the batch's rows, the driver adds what
the next batch takes over, and Spark commits the batch after that. So a batch that is repeated after a crash finds the
quotas, the principals and the event times of its first attempt.

A mounted folder may list new files late. So readers wait for a file by its name, instead of listing the folder.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from quota.limits import Quotas
from streaming.batch.tracked_principals import NOTES, TrackedPrincipals, apply_notes
from streaming.checkpoint.commit_metadata import WRITE_ORDER
from streaming.checkpoint.next_producer_id import load_next_producer_id
from streaming.checkpoint.own_files import await_file, write_atomically
from streaming.checkpoint.spark_files import (
    START_ANEW,
    Offsets,
    batch_begin_ms,
    batch_offsets,
    in_use,
    newest_batch,
)
from streaming.errors import CheckpointError

FOLDER = "pid-quota-batches"
MAX_EVENT_TIME = "max_event_time"
"""Kind of the operator's rows that hold a partition and the start of that partition's newest step
(`Deployment.event_time_step`)."""
KEPT_BATCHES = 3
"""Number of batches whose files are kept. Spark repeats only the newest batch, which needs its predecessor's file."""
_Content = TypeVar("_Content")
_SAME_FOLDER = "restart the stream, which writes it again; workers and driver must see the same checkpoint folder"


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """What a batch takes over from the batches before it.

    Attributes:
        tracked: The principals with a ledger of their own.
        event_times: Newest event time per topic partition, rounded down to a minute by default. A ledger is evicted
            when its partition reaches a certain time. So a repeated batch evicts the same ledgers.
        written: Number of the newest batch that wrote rows, by table.
    """

    tracked: TrackedPrincipals = TrackedPrincipals()
    event_times: dict[int, int] = {}
    written: dict[str, int] = {}

    def after(self, batch_id: int, reported: Mapping[str, Sequence[Any]]) -> "Carried":
        """Return what the next batch takes over.

        `reported` holds the bodies of the operator's rows, by kind (`streaming.operator.rows`).
        """
        has_notes = any(reported.get(kind) for kind in NOTES)
        return Carried(
            apply_notes(self.tracked, batch_id, reported) if has_notes else self.tracked,
            furthest(self.event_times, reported.get(MAX_EVENT_TIME, ())),
            self.written | {table: batch_id for table in WRITE_ORDER if reported.get(table)},
        )


class BatchContext(msgspec.Struct, frozen=True, array_like=True):
    """The facts of a batch.

    Attributes:
        begin_ms: The driver's time when the batch began; None if unknown.
        starts: The batch's first offset, by topic and partition; empty for the first batch.
        ends: Offset after the batch's last record, by topic and partition.
        quotas: The quotas in force.
        next_producer_id: The lowest PID that was not handed out when the batch began, as far as the plugins have
            reported; None if unknown. A ledger that is lost in this batch learns below it.
        before: What the batch takes over.
        after: What the next batch takes over; None until the tables have the batch's rows.
    """

    begin_ms: int | None
    starts: Offsets
    ends: Offsets
    quotas: Quotas
    next_producer_id: int | None = None
    before: Carried = Carried()
    after: Carried | None = None

    @property
    def partitions(self) -> int:
        """The number of the batch's topic partitions."""
        return sum(map(len, self.ends.values()))


def furthest(event_times: Mapping[int, int], latest: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the event times after a batch. `latest` holds pairs of a partition and the start of its newest step.

    Examples:
        >>> furthest({0: 900, 1: 1800}, [(0, 1800), (1, 900)])
        {0: 1800, 1: 1800}
    """
    times = dict(event_times)
    for partition, ms in latest:
        times[partition] = max(ms, times.get(partition, 0))
    return times


def begin_batch(checkpoint: str, batch_id: int, read_quotas: Callable[[], Quotas]) -> BatchContext:
    """Write the file of a batch for its tasks, and return its content. A repeated batch keeps its file.

    Raises:
        CheckpointError: If the file of the batch before does not appear, or can't be read.
    """
    begin_ms = batch_begin_ms(checkpoint, batch_id)
    starts, ends = (batch_offsets(checkpoint, number) for number in (batch_id - 1, batch_id))
    again = _glance(checkpoint, batch_id)
    if again is not None and (again.begin_ms, again.starts, again.ends) == (begin_ms, starts, ends):
        return again
    before = carried_before(checkpoint, batch_id)
    context = BatchContext(begin_ms, starts, ends, read_quotas(), load_next_producer_id(checkpoint), before)
    _write(checkpoint, batch_id, context)
    return context


def end_batch(checkpoint: str, batch_id: int, context: BatchContext, reported: Mapping[str, Sequence[Any]]) -> None:
    """Add what the next batch takes over to the file of a batch. `reported` is as in `Carried.after`."""
    _write(checkpoint, batch_id, msgspec.structs.replace(context, after=context.before.after(batch_id, reported)))
    _path(checkpoint, batch_id - KEPT_BATCHES).unlink(missing_ok=True)


def read_context(checkpoint: str, batch_id: int) -> BatchContext:
    """Return the facts of a batch that has begun.

    Raises:
        CheckpointError: If the file does not appear or can't be read, or another stream has deleted it.
    """
    return _await(checkpoint, batch_id, _decode, _SAME_FOLDER)


def carried_before(checkpoint: str, batch_id: int) -> Carried:
    """Return what a batch takes over. Raises the same errors as `read_context`."""
    return _await(checkpoint, batch_id - 1, _decode_end, START_ANEW) if batch_id > 0 else Carried()


def written_batches(checkpoint: str) -> dict[str, int]:
    """Return the number of the newest batch that wrote rows, by table; empty if no batch has ended."""
    begun = newest_batch(checkpoint)
    # The newest batch may have no file yet.
    contexts = () if begun is None else (_glance(checkpoint, batch_id) for batch_id in (begun, begun - 1))
    return next(((each.after or each.before).written for each in contexts if each is not None), {})


def _decode(content: bytes) -> BatchContext:
    return msgspec.msgpack.decode(content, type=BatchContext)


def _decode_end(content: bytes) -> Carried:
    after = _decode(content).after
    if after is None:
        # A mount may show the file of the batch's begin for a while.
        msg = "the batch has not ended"
        raise FileNotFoundError(msg)
    return after


def _await(checkpoint: str, batch_id: int, decode: Callable[[bytes], _Content], remedy: str) -> _Content:
    file = _path(checkpoint, batch_id)
    try:
        return await_file(file, decode)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and _was_deleted(checkpoint, batch_id):
            raise in_use(checkpoint) from error
        msg = f"{file} can't be read ({error}): {remedy}"
        raise CheckpointError(msg) from error


def _was_deleted(checkpoint: str, batch_id: int) -> bool:
    """Return whether another stream is so far ahead that it has deleted a batch's file."""
    files = Path(checkpoint, FOLDER).glob("*.msgpack")
    return any(int(file.stem) >= batch_id + KEPT_BATCHES for file in files)


def _glance(checkpoint: str, batch_id: int) -> BatchContext | None:
    """Return the content of a batch's file without waiting. Return None if the file can't be read now."""
    try:
        return _decode(_path(checkpoint, batch_id).read_bytes())
    except (OSError, ValueError):
        return None


def _write(checkpoint: str, batch_id: int, context: BatchContext) -> None:
    write_atomically(_path(checkpoint, batch_id), msgspec.msgpack.encode(context))


def _path(checkpoint: str, batch_id: int) -> Path:
    return Path(checkpoint, FOLDER, f"{batch_id}.msgpack")

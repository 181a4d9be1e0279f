"""Detects records that were lost before the stream read them.

Spark's Kafka source skips gaps silently (`failOnDataLoss=false`). `LossDetector` compares each batch's offsets with the
topic's offsets. After a gap, old PIDs may look new. So the stream restarts, learns for a window, and repeats the batch.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from state.learning import Learning
from streaming.checkpoint.next_producer_id import load_next_producer_id
from streaming.checkpoint.own_files import read_json, write_json
from streaming.checkpoint.spark_files import START_ANEW, batch_offsets, parse_offsets
from streaming.errors import DataLossError

LOSS_FILE = "pid-quota-losses.json"

_log = logging.getLogger(__name__)


class Extent(Protocol):
    """The current offsets of a topic."""

    @property
    def topic_id(self) -> str:
        """The topic's id. A recreated topic has another id."""

    @property
    def earliest(self) -> Mapping[int, int]:
        """The oldest record's offset, by partition."""


class Loss(msgspec.Struct, frozen=True):
    """Lost records of a partition.

    Attributes:
        batch_id: The batch in which the loss was found.
        first: Offset of the first lost record.
        end: Offset after the last lost record; -1 if unknown.
    """

    batch_id: int
    partition: int
    first: int
    end: int
    reason: str


class LossRecord(msgspec.Struct, frozen=True):
    """The losses recorded in a checkpoint.

    Attributes:
        topic_id: Id of the topic at the last check; empty before the first check.
        learn_until_ms: End of the learning time after the losses, in event time.
        learn_below: The cluster's next producer id when the loss was found; None if unknown.
    """

    topic_id: str = ""
    learn_until_ms: int = 0
    learn_below: int | None = None
    losses: tuple[Loss, ...] = ()

    @property
    def learning(self) -> Learning:
        """The learning time after the losses."""
        return Learning(self.learn_until_ms, self.learn_below)


def load_loss_record(checkpoint: str) -> LossRecord:
    """Return a checkpoint's loss record, or an empty record.

    Raises:
        CheckpointDamagedError: If the record can't be read.
    """
    # Don't advise people to delete the file. This would end the learning time, and old PIDs would be charged as new.
    remedy = f"{START_ANEW}, which learns for a window"
    return read_json(Path(checkpoint) / LOSS_FILE, LossRecord, remedy) or LossRecord()


def restart_after_losses(checkpoint: str, run: Callable[[], None]) -> None:
    """Call `run`, which starts a stream and waits for its end, until it ends without a new loss."""
    while True:
        known = load_loss_record(checkpoint).losses
        try:
            run()
        except Exception:
            if load_loss_record(checkpoint).losses == known:
                raise
            # The loss is recorded, so the next run learns.
        else:
            return


@dataclass(frozen=True)
class LossDetector:
    """Compares the offsets of batches with the topic's offsets.

    Attributes:
        window_ms: Length of the learning time after a loss.
        starting_offsets: Offsets of the first batch, in the form of Spark's option `startingOffsets`.
    """

    checkpoint: str
    topic: str
    window_ms: int
    starting_offsets: str
    extent: Callable[[], Extent] = field(repr=False)
    now_ms: Callable[[], int]

    def check(self, batch_id: int) -> None:
        """Check that the topic still has all records of a batch. Record new losses.

        Raises:
            DataLossError: If there is a new loss.
        """
        record, extent = load_loss_record(self.checkpoint), self.extent()
        before = parse_offsets(self.starting_offsets) if not batch_id else batch_offsets(self.checkpoint, batch_id - 1)
        ends = batch_offsets(self.checkpoint, batch_id)
        topic = Range(before.get(self.topic, {}), ends.get(self.topic, {}))
        was_replaced = record.topic_id not in ("", extent.topic_id)
        found = (_recreated if was_replaced else _missing)(topic, extent.earliest, batch_id)
        news = [
            loss for loss in found if not any(_covers(known, loss, topic) for known in _of_now(record.losses, loss))
        ]
        if news:
            kept = [
                loss for loss in record.losses if (loss.batch_id, loss.partition) not in {_place(new) for new in news}
            ]
            now = Learning(self.now_ms() + self.window_ms, load_next_producer_id(self.checkpoint))
            learning = record.learning.later(now)
            self._save(LossRecord(extent.topic_id, learning.until_ms, learning.below, (*kept, *news)))
            for loss in news:
                _log.error("data loss in topic %s: %s; learning for a window", self.topic, loss.reason)
            raise DataLossError("; ".join(loss.reason for loss in news))
        if record.topic_id != extent.topic_id:
            self._save(msgspec.structs.replace(record, topic_id=extent.topic_id))

    def rows(self, batch_id: int) -> list[dict[str, Any]]:
        """Return the losses of a batch as rows of `quarantined_events`."""
        return [
            {
                "value": None,
                "reason": f"data loss: {loss.reason}",
                "topic": self.topic,
                "partition": loss.partition,
                "offset": loss.first,
                "record_timestamp": None,
            }
            for loss in load_loss_record(self.checkpoint).losses
            if loss.batch_id == batch_id
        ]

    def _save(self, record: LossRecord) -> None:
        write_json(Path(self.checkpoint) / LOSS_FILE, record)


@dataclass(frozen=True)
class Range:
    """Start (inclusive) and end (exclusive) offsets of a batch, by partition."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]


def _missing(batch: Range, earliest: Mapping[int, int], batch_id: int) -> list[Loss]:
    """Return the lost records of a batch whose topic was not recreated."""
    found = []
    for partition, start in batch.starts.items():
        end, low = batch.ends.get(partition, -1), earliest.get(partition)
        if low is None or end < 0:
            reason = f"partition {partition} is gone, with all unread records from offset {start} on"
            found.append(Loss(batch_id, partition, start, -1, reason))
        elif end < start:
            reason = f"partition {partition} went back from offset {start} to {end}: the records between are lost"
            found.append(Loss(batch_id, partition, start, -1, reason))
        elif start < min(low, end):
            # The gap may end after the batch. The learning time covers the whole gap.
            reason = f"offsets {start} to {low - 1} of partition {partition} were deleted before they were read"
            found.append(Loss(batch_id, partition, start, low, reason))
    return found


def _recreated(batch: Range, earliest: Mapping[int, int], batch_id: int) -> list[Loss]:
    """Return a loss for each partition of a topic that was deleted and recreated."""
    found = []
    for partition, start in batch.starts.items():
        reason = f"the topic was deleted and recreated: partition {partition} is not read from offset {start} on"
        if partition in earliest:
            goes_on = min(start, max(0, batch.ends.get(partition, start)))
            reason += f", and the new one is not read up to offset {goes_on}"
        found.append(Loss(batch_id, partition, start, -1, reason))
    return found


def _of_now(losses: Sequence[Loss], loss: Loss) -> list[Loss]:
    """Return the recorded losses in the partition of `loss` since that partition's offsets last restarted."""
    known = [each for each in losses if each.partition == loss.partition]
    began = max((each.batch_id for each in known if each.end < 0), default=0)
    return [each for each in known if each.batch_id >= began]


def _covers(known: Loss, loss: Loss, batch: Range) -> bool:
    """Return whether a recorded loss covers all records of `loss` up to the batch's end."""
    if known.end < 0 or loss.end < 0:
        return known.batch_id == loss.batch_id
    return known.first <= loss.first and known.end >= min(loss.end, batch.ends[loss.partition])


def _place(loss: Loss) -> tuple[int, int]:
    return loss.batch_id, loss.partition

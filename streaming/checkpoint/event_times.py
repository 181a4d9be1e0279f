"""How far the event time of each topic partition has come, as the driver knows it after each batch.

A principal whose ledger has expired is forgotten by the time of its own partition. That time is a function of the
committed batches: the operator says which quanta a batch has reached, the driver keeps the sum in the checkpoint
folder, and a batch reads the newest file before its own number. So a repeated batch, whatever its tasks' order, forgets
the same principals.
"""

from collections.abc import Sequence

import msgspec

from streaming.checkpoint.batch_files import BatchFiles

REACHED = "reached"
"""Kind of the operator's rows that tell a partition and the quantum it has reached."""

FOLDER = "pid-quota-event-times"


class EventTimes(msgspec.Struct, frozen=True, array_like=True):
    """How far each partition has come.

    Attributes:
        reached_ms: Start of the newest quantum with an event, in ms since the epoch, by partition.
    """

    reached_ms: dict[int, int] = msgspec.field(default_factory=dict)

    def of(self, partition: int) -> int:
        """Return how far a partition has come; 0 if nothing of it was committed."""
        return self.reached_ms.get(partition, 0)

    def after(self, reached: Sequence[tuple[int, int]]) -> "EventTimes":
        """Return the times after a batch that has reached so much.

        Examples:
            >>> EventTimes({0: 900, 1: 1800}).after([(0, 1800), (1, 900)]).reached_ms
            {0: 1800, 1: 1800}
        """
        times = dict(self.reached_ms)
        for partition, reached_ms in reached:
            times[partition] = max(reached_ms, self.of(partition), times.get(partition, 0))
        return EventTimes(times)


def times_before(checkpoint: str, batch_id: int) -> EventTimes:
    """Return the times that hold for a batch: those after the newest of the batches before it.

    Raises:
        CheckpointError: If they can't be read.
    """
    files = BatchFiles(checkpoint, FOLDER)
    number = files.newest(batch_id - 1)
    return EventTimes() if number is None else files.read(number, EventTimes)


def keep_times(checkpoint: str, batch_id: int, reached: Sequence[tuple[int, int]]) -> None:
    """Keep how far a batch has come; a repeated batch says it again."""
    before = times_before(checkpoint, batch_id)
    after = before.after(reached)
    if after != before:
        BatchFiles(checkpoint, FOLDER).write(batch_id, after)

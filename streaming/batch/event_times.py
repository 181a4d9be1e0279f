"""The maximum event time of each topic partition.

An idle ledger is evicted by the event time of its own partition. The operator reports the newest step
(`Deployment.event_time_step`) of each partition, and the driver stores the maximum after each batch (see
`streaming.batch.batch_ends`). So the time depends only on committed batches. If a batch is repeated, it evicts the same
ledgers, whatever the order of its tasks.
"""

from collections.abc import Sequence

import msgspec

MAX_EVENT_TIME = "max_event_time"
"""Kind of the operator's rows that hold a partition and the start of its newest step."""


class EventTimes(msgspec.Struct, frozen=True, array_like=True):
    """The maximum event time of each partition.

    Attributes:
        max_event_time_ms: Start of the newest step with an event, in ms since the epoch, by partition.
    """

    max_event_time_ms: dict[int, int] = msgspec.field(default_factory=dict)

    def after(self, latest: Sequence[tuple[int, int]]) -> "EventTimes":
        """Return the event times after a batch, given pairs of partition and newest step's start.

        Examples:
            >>> EventTimes({0: 900, 1: 1800}).after([(0, 1800), (1, 900)]).max_event_time_ms
            {0: 1800, 1: 1800}
        """
        times = dict(self.max_event_time_ms)
        for partition, max_event_time_ms in latest:
            times[partition] = max(max_event_time_ms, times.get(partition, 0))
        return EventTimes(times)

"""The maximum event time of each topic partition.

A ledger is evicted by its partition's event time. The operator reports each partition's newest step
(`Deployment.event_time_step`). The driver stores the maximum after each batch. So the time depends only on committed
batches, and a repeated batch evicts the same ledgers.
"""

from collections.abc import Sequence

import msgspec

MAX_EVENT_TIME = "max_event_time"
"""Kind of the operator's rows with a partition and the start of the partition's newest step."""


class EventTimes(msgspec.Struct, frozen=True, array_like=True):
    """The maximum event times.

    Attributes:
        max_event_time_ms: Newest event time per partition in ms since the epoch, rounded down to a minute by default.
    """

    max_event_time_ms: dict[int, int] = msgspec.field(default_factory=dict)

    def after(self, latest: Sequence[tuple[int, int]]) -> "EventTimes":
        """Return the event times after a batch, given pairs of a partition and a step's start.

        Examples:
            >>> EventTimes({0: 900, 1: 1800}).after([(0, 1800), (1, 900)]).max_event_time_ms
            {0: 1800, 1: 1800}
        """
        times = dict(self.max_event_time_ms)
        for partition, max_event_time_ms in latest:
            times[partition] = max(max_event_time_ms, times.get(partition, 0))
        return EventTimes(times)

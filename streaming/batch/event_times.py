"""The maximum event time of each topic partition.

A ledger is evicted when its partition reaches a certain event time. The operator rounds event times down to steps
(`Deployment.event_time_step`), and the driver stores the maximum after each batch. So the maximum depends only on
committed batches, and a repeated batch evicts the same ledgers.
"""

from collections.abc import Sequence

import msgspec

MAX_EVENT_TIME = "max_event_time"
"""Kind of the operator's rows that hold a partition and the start of that partition's newest step."""


class EventTimes(msgspec.Struct, frozen=True, array_like=True):
    """The maximum event times.

    Attributes:
        max_event_time_ms: Newest event time per partition, rounded down to a minute by default.
    """

    max_event_time_ms: dict[int, int] = msgspec.field(default_factory=dict)

    def after(self, latest: Sequence[tuple[int, int]]) -> "EventTimes":
        """Return the event times after a batch. `latest` holds pairs of a partition and the start of its newest step.

        Examples:
            >>> EventTimes({0: 900, 1: 1800}).after([(0, 1800), (1, 900)]).max_event_time_ms
            {0: 1800, 1: 1800}
        """
        times = dict(self.max_event_time_ms)
        for partition, max_event_time_ms in latest:
            times[partition] = max(max_event_time_ms, times.get(partition, 0))
        return EventTimes(times)

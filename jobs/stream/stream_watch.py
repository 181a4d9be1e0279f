"""Connects a running stream to its metrics and its narrator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from tables.store.values import RowFilter
from tables.times import to_ms

if TYPE_CHECKING:
    from datetime import datetime

    from jobs.stream.narration import Narrator
    from jobs.stream.stream_metrics import StreamMetrics
    from streaming.commit.sinks import BatchSummary
    from streaming.listener import Progress
    from tables.store.base import TableStore

_LONGEST_THROTTLE = timedelta(days=7)
_COLUMNS = ("principal", "broker_id", "action", "decided_at", "throttled_until")


@dataclass(frozen=True)
class Watch:
    """Passes batches and progress of a stream to its metrics and its narrator."""

    metrics: StreamMetrics
    narrator: Narrator

    def observe(self, batch: BatchSummary) -> None:
        """Pass on a committed batch."""
        self.metrics.observe(batch)
        self.narrator.observe(batch)

    def report(self, progress: Progress) -> None:
        """Pass on Spark's progress of a query."""
        self.metrics.report(progress)
        self.narrator.report(progress)

    def idle(self, query: str) -> None:
        """Pass on that a query has nothing to read."""
        self.metrics.idle(query)
        self.narrator.idle(query)

    def restore(self, store: TableStore, now: datetime) -> None:
        """Add the throttles of an earlier run of the stream to the metrics.

        Raises:
            TableError: If the throttles can't be read.
        """
        since = now - _LONGEST_THROTTLE
        recent = RowFilter("throttled_until > :since", {"since": since}, _COLUMNS, ("throttled_until", since))
        rows = store.read("throttle_decisions", recent)
        times = ("decided_at", "throttled_until")
        self.metrics.restore(row | {name: to_ms(row[name]) for name in times} for row in rows)


class _Nobody:
    """Replaces an observer in another process."""

    def __call__(self, batch: BatchSummary) -> None:
        """Ignore a committed batch."""


@dataclass(frozen=True)
class Observer:
    """Passes committed batches to a watch. Its copy in the server of Spark Connect does nothing."""

    watch: Watch

    def __call__(self, batch: BatchSummary) -> None:
        """Pass on a committed batch."""
        self.watch.observe(batch)

    def __reduce__(self) -> tuple[type[_Nobody], tuple[()]]:
        """Return how to make a copy in another process."""
        return _Nobody, ()

"""Connects a running stream to its metrics and narrator."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jobs.stream.stream_metrics import STREAM_QUERY
from jobs.stream.stream_pulse import Pulse, work_of
from streaming.failures import jvm_may_be_gone
from streaming.listener import ProgressListener, ProgressPoll
from tables.store.values import RowFilter
from tables.times import to_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from jobs.stream.narration import Narrator
    from jobs.stream.stream_metrics import StreamMetrics
    from streaming.commit.sinks import BatchSummary
    from streaming.listener import Progress
    from tables.store.base import TableStore

_Seen = TypeVar("_Seen")
_LONGEST_THROTTLE = timedelta(days=7)
_COLUMNS = ("decision_id", "principal", "action", "decided_at", "throttled_until", "tokens", "quota", "refused_pids")


@dataclass(frozen=True)
class Watch:
    """A stream's metrics and narrator, which both get all batches and progress."""

    metrics: StreamMetrics
    narrator: Narrator
    pulse: Pulse = field(default_factory=Pulse)

    def observe(self, batch: BatchSummary) -> None:
        """Pass on a committed batch."""
        self.metrics.observe(batch)
        self.narrator.observe(batch)

    def report(self, progress: Progress) -> None:
        """Pass on Spark's progress of a query."""
        if progress.query == STREAM_QUERY:
            self.pulse.progressed()
        self.metrics.report(progress)
        self.narrator.report(progress)

    def idle(self, query: str) -> None:
        """Pass on that a query has nothing to read."""
        self.metrics.idle(query)
        self.narrator.idle(query)

    def restore(self, store: TableStore, now: datetime) -> list[dict[str, Any]]:
        """Add the throttles from before the stream's start to the metrics, and return them with times in ms.

        Raises:
            TableError: If the throttles can't be read.
        """
        since = now - _LONGEST_THROTTLE
        recent = RowFilter("throttled_until > :since", {"since": since}, _COLUMNS)
        times = ("decided_at", "throttled_until")
        found = store.read("throttle_decisions", recent)
        rows = [row | {name: to_ms(row[name]) for name in times} for row in found]
        self.metrics.restore(rows)
        return rows


@contextmanager
def reported(spark: SparkSession, watch: Watch) -> Iterator[Callable[[Iterable[StreamingQuery]], None]]:
    """Report the progress of a session's queries to a watch until the `with` block ends.

    Yields:
        A function to call every few seconds with the running queries.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        poll = ProgressPoll(watch.report, watch.idle)

        def ask(queries: Iterable[StreamingQuery]) -> None:
            poll(queries)
            watch.pulse.beat()

        yield ask
        return
    listener = ProgressListener(watch.report, watch.idle)
    spark.streams.addListener(listener)
    try:
        yield lambda queries: watch.pulse.beat(work_of(spark, queries))
    finally:
        with jvm_may_be_gone():
            spark.streams.removeListener(listener)


class _Nobody:
    """A copy of an `Observer` in another process. It does nothing."""

    def __call__(self, seen: Any) -> None:
        """Ignore what was seen."""


@dataclass(frozen=True)
class Observer(Generic[_Seen]):
    """A function that passes what it gets to `observe`. A pickled copy, as in Spark Connect, does nothing."""

    observe: Callable[[_Seen], None]

    def __call__(self, seen: _Seen) -> None:
        """Pass on what was seen, such as a committed batch."""
        self.observe(seen)

    def __reduce__(self) -> tuple[type[_Nobody], tuple[()]]:
        return _Nobody, ()

"""Converts Spark's progress reports of running queries to plain values."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from typing_extensions import override


@dataclass(frozen=True)
class Progress:
    """Spark's report of a micro-batch.

    Attributes:
        batch_seconds: Time from the batch's trigger until its offsets were committed.
        records_behind: Number of unread records in the topic.
        state_rows: Number of states that the query keeps.
    """

    query: str
    batch_id: int
    batch_seconds: float
    records: int
    records_behind: int
    state_rows: int
    state_bytes: int


class JavaListener(JStreamingQueryListener):
    """Passes on a batch's report without reading it. The base class reads the fields in hundreds of JVM calls."""

    @override
    def onQueryProgress(self, jevent: Any) -> None:
        self.pylistener.onQueryProgress(jevent.progress())


class ProgressListener(StreamingQueryListener):
    """Forwards the progress of all queries, from a thread of Spark."""

    def __init__(self, report: Callable[[Progress], None], idle: Callable[[str], None]) -> None:
        """Create a listener for a session without Spark Connect.

        `idle` is called with the name of a query that has nothing to read.
        """
        self._report, self._idle = report, idle
        self._names: dict[str, str] = {}

    @cached_property
    def _jlistener(self) -> Any:
        from pyspark import SparkContext

        return vars(SparkContext)["_jvm"].PythonStreamingQueryListenerWrapper(JavaListener(self))

    @override
    def onQueryStarted(self, event: Any) -> None:
        """Remember the query's name. Idle events have only the query's id."""
        self._names[str(event.id)] = event.name or ""

    @override
    def onQueryProgress(self, event: Any) -> None:
        """Forward a batch's progress. `event` is the report in the JVM."""
        self._report(progress_of(json.loads(event.json())))

    @override
    def onQueryIdle(self, event: Any) -> None:
        """Forward the name of an idle query."""
        self._idle(self._names.get(str(event.id), ""))

    @override
    def onQueryTerminated(self, event: Any) -> None:
        """Forget the query's name."""
        self._names.pop(str(event.id), None)


class ProgressPoll:
    """Asks queries for their progress over Spark Connect.

    There, an event that arrives while a listener is removed makes the process hang (SPARK-59623).
    """

    def __init__(self, report: Callable[[Progress], None], idle: Callable[[str], None]) -> None:
        """Create a poll that calls the same functions as a `ProgressListener`."""
        self._report, self._idle = report, idle
        self._newest: dict[str, str] = {}

    def __call__(self, queries: Iterable[StreamingQuery]) -> None:
        """Report progress that is new since the previous call."""
        for query in queries:
            newest = self._newest.get(query.runId, "")
            reports = [json.loads(each.json) for each in query.recentProgress]
            # These times can be compared as texts, because all are in UTC and have the same length.
            reports = [report for report in reports if report["timestamp"] > newest]
            for report in reports:
                self._report(progress_of(report))
            if reports:
                self._newest[query.runId] = reports[-1]["timestamp"]
            elif not query.status["isTriggerActive"]:
                self._idle(query.name or "")


def progress_of(report: Mapping[str, Any]) -> Progress:
    """Convert Spark's report of a batch to `Progress`.

    Examples:
        >>> source = {"endOffset": {"t": {"0": 4}}, "latestOffset": {"t": {"0": 9}}}
        >>> report = {"name": "q", "batchId": 1, "durationMs": {"triggerExecution": 1500}, "sources": [source]}
        >>> progress_of(report).records_behind
        5
    """
    states = report.get("stateOperators") or []
    return Progress(
        query=report.get("name") or "",
        batch_id=report["batchId"],
        batch_seconds=(report.get("durationMs") or {}).get("triggerExecution", 0) / 1000,
        records=report.get("numInputRows", 0),
        records_behind=sum(_behind(source) for source in report.get("sources") or []),
        state_rows=sum(state["numRowsTotal"] for state in states),
        state_bytes=sum(state["memoryUsedBytes"] for state in states),
    )


def _behind(source: Mapping[str, Any]) -> int:
    """Return the number of unread records of a source; 0 unless the source is Kafka."""
    return max(0, _records(source.get("latestOffset")) - _records(source.get("endOffset")))


def _records(offsets: Any) -> int:
    if not isinstance(offsets, dict):
        return 0
    topics = [partitions for partitions in offsets.values() if isinstance(partitions, dict)]
    return sum(offset for partitions in topics for offset in partitions.values())

"""Spark's progress reports of running queries, as plain values."""

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
    """Progress of a micro-batch, as reported by Spark.

    Attributes:
        batch_seconds: Time from the batch's trigger until its offsets were committed.
        records: Records read from the source.
        records_behind: Records in the source after this batch.
        state_rows: Number of states that the query keeps.
        state_bytes: Memory used by these states.
    """

    query: str
    batch_id: int
    batch_seconds: float
    records: int
    records_behind: int
    state_rows: int
    state_bytes: int


class JavaListener(JStreamingQueryListener):
    """Reads a batch's report as JSON in two calls to the JVM. The base class reads each field, in hundreds of calls."""

    @override
    def onQueryProgress(self, jevent: Any) -> None:
        self.pylistener.onQueryProgress(jevent.progress())


class ProgressListener(StreamingQueryListener):
    """Forwards the progress of all queries. Spark calls it from its own thread."""

    def __init__(self, report: Callable[[Progress], None], idle: Callable[[str], None]) -> None:
        """Create a listener that you add to a session without Spark Connect.

        Args:
            report: Called with each batch.
            idle: Called with the name of a query that runs but has nothing to read.
        """
        self._report, self._idle = report, idle
        self._names: dict[str, str] = {}

    @cached_property
    def _jlistener(self) -> Any:
        """The listener that Spark's JVM calls."""
        from pyspark import SparkContext

        return vars(SparkContext)["_jvm"].PythonStreamingQueryListenerWrapper(JavaListener(self))

    @override
    def onQueryStarted(self, event: Any) -> None:
        """Remember the query's name, because idle events have only its id."""
        self._names[str(event.id)] = event.name or ""

    @override
    def onQueryProgress(self, event: Any) -> None:
        """Forward a batch. `event` is its report in the JVM."""
        self._report(progress_of(json.loads(event.json())))

    @override
    def onQueryIdle(self, event: Any) -> None:
        """Forward that a query is idle."""
        self._idle(self._names.get(str(event.id), ""))

    @override
    def onQueryTerminated(self, event: Any) -> None:
        """Forget the query's name."""
        self._names.pop(str(event.id), None)


class ProgressPoll:
    """Asks queries for their progress, over Spark Connect.

    There, a listener can't be removed safely: if an event arrives at that moment, the process hangs (SPARK-59623).
    """

    def __init__(self, report: Callable[[Progress], None], idle: Callable[[str], None]) -> None:
        """Create a poll with the functions of a `ProgressListener`."""
        self._report, self._idle = report, idle
        self._newest: dict[str, str] = {}

    def __call__(self, queries: Iterable[StreamingQuery]) -> None:
        """Forward what each query reported since the last call."""
        for query in queries:
            newest = self._newest.get(query.runId, "")
            reports = [json.loads(each.json) for each in query.recentProgress]
            # The times are of one query, in UTC and of one length.
            reports = [report for report in reports if report["timestamp"] > newest]
            for report in reports:
                self._report(progress_of(report))
            if reports:
                self._newest[query.runId] = reports[-1]["timestamp"]
            elif not query.status["isTriggerActive"]:
                self._idle(query.name or "")


def progress_of(report: Mapping[str, Any]) -> Progress:
    """Parse Spark's JSON of a batch.

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
    """Return the lag of a source. It is 0 for sources other than Kafka, because they have no offsets to compare."""
    return max(0, _records(source.get("latestOffset")) - _records(source.get("endOffset")))


def _records(offsets: Any) -> int:
    if not isinstance(offsets, dict):
        return 0
    topics = [partitions for partitions in offsets.values() if isinstance(partitions, dict)]
    return sum(offset for partitions in topics for offset in partitions.values())

"""What Spark says of its streaming queries while they run, as plain values."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener
from typing_extensions import override


@dataclass(frozen=True)
class Progress:
    """A micro-batch of a query, as Spark counted it.

    Attributes:
        query: Name of the query.
        batch_id: Its number.
        batch_seconds: From its trigger until its offsets were committed.
        records: Read from the source.
        records_behind: In the source, but neither in this batch nor in one before it.
        state_rows: States that the query keeps.
        state_bytes: Memory that they take.
    """

    query: str
    batch_id: int
    batch_seconds: float
    records: int
    records_behind: int
    state_rows: int
    state_bytes: int


class ProgressListener(StreamingQueryListener):
    """Hands each batch of each query on. Spark calls it from a thread of its own."""

    def __init__(self, report: Callable[[Progress], None], idle: Callable[[str], None]) -> None:
        """Hear nothing yet: it has to be added to a session.

        Args:
            report: Takes a batch.
            idle: Takes the name of a query that is alive and found nothing to read.
        """
        self._report, self._idle = report, idle
        self._names: dict[str, str] = {}

    @override
    def onQueryStarted(self, event: Any) -> None:
        """Learn the query's name: that it is idle is told by its id only."""
        self._names[str(event.id)] = event.name or ""

    @override
    def onQueryProgress(self, event: Any) -> None:
        """Hand on a batch."""
        self._report(progress_of(json.loads(event.progress.json)))

    @override
    def onQueryIdle(self, event: Any) -> None:
        """Hand on that a query is alive."""
        self._idle(self._names.get(str(event.id), ""))

    @override
    def onQueryTerminated(self, event: Any) -> None:
        """Whoever started the query is told by Spark."""
        self._names.pop(str(event.id), None)


def progress_of(told: Mapping[str, Any]) -> Progress:
    """Return what Spark's JSON of a batch says.

    Examples:
        >>> source = {"endOffset": {"t": {"0": 4}}, "latestOffset": {"t": {"0": 9}}}
        >>> told = {"name": "q", "batchId": 1, "durationMs": {"triggerExecution": 1500}, "sources": [source]}
        >>> progress_of(told).records_behind
        5
    """
    states = told.get("stateOperators") or []
    return Progress(
        query=told.get("name") or "",
        batch_id=told["batchId"],
        batch_seconds=(told.get("durationMs") or {}).get("triggerExecution", 0) / 1000,
        records=told.get("numInputRows", 0),
        records_behind=sum(_behind(source) for source in told.get("sources") or []),
        state_rows=sum(state["numRowsTotal"] for state in states),
        state_bytes=sum(state["memoryUsedBytes"] for state in states),
    )


def _behind(source: Mapping[str, Any]) -> int:
    """Sources other than Kafka do not number their records."""
    return max(0, _records(source.get("latestOffset")) - _records(source.get("endOffset")))


def _records(offsets: Any) -> int:
    if not isinstance(offsets, dict):
        return 0
    topics = [partitions for partitions in offsets.values() if isinstance(partitions, dict)]
    return sum(offset for partitions in topics for offset in partitions.values())

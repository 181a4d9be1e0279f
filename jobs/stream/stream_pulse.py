"""Knows whether a running stream hangs: its process has stopped, or a batch makes no progress.

A stream without brokers does not hang: it has no batch, and waits for offsets.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from jobs.services.steady_clock import SteadyClock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BEAT_S = 60.0
"""The driver asks the JVM every five seconds. One that does not answer for this long has stopped."""
BEGIN_S = 240.0
"""Maximum time from the process's start of Spark to the first beat."""
BATCH_S = 900.0
"""A batch shows progress at least this often: a task that ends, or the next batch."""
_MAX_STEP_S = 20.0
"""The pulse hears of the stream, or is asked for it, more often than this."""


class Pulse:
    """The newest signs of life, by a clock that stands still while the process is stopped. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock = SteadyClock(monotonic, max_step_s=_MAX_STEP_S)
        self._lock = threading.Lock()
        self._beat_s = self._changed_s = self._clock.now_s
        self._has_beaten = False
        self._work: Hashable = None

    def beat(self, work: Hashable = None) -> None:
        """Take that the JVM has answered. `work` is what the running batch has done; None if no batch runs."""
        with self._lock:
            self._beat_s, self._has_beaten = self._clock.tick(), True
            if work is None or work != self._work:
                self._work, self._changed_s = work, self._beat_s

    def progressed(self) -> None:
        """Take that a batch of the stream has ended."""
        with self._lock:
            self._changed_s = self._clock.tick()

    def unwell(self) -> str:
        """Return why only a restart helps, or an empty text. Ask every few seconds."""
        with self._lock:
            now_s = self._clock.tick()
            silent_s = now_s - self._beat_s
            stuck_s = now_s - self._changed_s if self._work is not None else 0.0
            most_s = BEAT_S if self._has_beaten else BEGIN_S
        if silent_s > most_s:
            return f"the JVM has not answered for {silent_s:.0f} s"
        return f"a batch has made no progress for {stuck_s:.0f} s" if stuck_s > BATCH_S else ""


def work_of(spark: SparkSession, queries: Iterable[StreamingQuery]) -> Hashable:
    """Return the oldest stage that runs and its tasks that have ended; None if the first query runs no batch."""
    status: dict[str, Any] = next(iter(queries)).status
    if not (status["isTriggerActive"] and status["isDataAvailable"]):
        return None
    tracker = spark.sparkContext.statusTracker()
    oldest = min(tracker.getActiveStageIds(), default=None)
    about = None if oldest is None else tracker.getStageInfo(oldest)
    return oldest, about.numCompletedTasks if about else 0

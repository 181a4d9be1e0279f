"""The lines that `pid-quota stream` prints: settings, the first decision, and progress once a minute."""

from __future__ import annotations

import logging
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from jobs.output.human import human, plural, time_of
from jobs.output.terminal import one_line
from jobs.stream.stream_metrics import STREAM_QUERY, Totals
from streaming.triggers import ASAP, AVAILABLE_NOW
from tables.times import duration, to_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quota.limits import Limit, Quotas
    from streaming.commit.sinks import BatchSummary
    from streaming.listener import Progress

LINE_EVERY_S = 60.0
CATCHING_UP_EVERY_S = 10.0
"""Seconds between lines while the stream is behind."""


def print_line(text: str, at_s: float) -> None:
    """Print a line with its time to standard error."""
    print(f"{time_of(to_time(round(at_s * 1000)))} {one_line(text)}", file=sys.stderr, flush=True)


class LineHandler(logging.Handler):
    """A log handler that prints records as lines."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        print_line(record.getMessage(), record.created)


@dataclass
class _Since:
    at_s: float
    records: int = 0
    longest_batch_s: float = 0.0
    decisions: int = 0
    behind: int | None = None


class Narrator:
    """A printer of what a stream does. Thread-safe, because Spark reports from several threads."""

    def __init__(
        self,
        totals: Callable[[], Totals],
        *,
        window_seconds: int,
        clock_s: Callable[[], float] = time.time,
        say: Callable[[str, float], None] = print_line,
    ) -> None:
        self._totals, self._window_seconds = totals, window_seconds
        self._clock_s, self._say = clock_s, say
        self._lock = threading.Lock()
        self._since = _Since(clock_s())
        self._quotas: Quotas | None = None
        self._has_decided = False

    def begin(self, source: str, target: str, trigger: str) -> None:
        """Print where the stream reads and writes."""
        how = {AVAILABLE_NOW: "to its present end", ASAP: "batch after batch; Ctrl-C ends it"}
        self._tell(
            f"reads topic {source}, writes tables in {target}, "
            f"{how.get(trigger, f'a batch every {trigger}; Ctrl-C ends it')}"
        )

    def learns_until(self, until_s: float, below: int | None) -> None:
        """Print when the stream's own learning ends, unless it has ended. `below` is the lowest PID that it charges."""
        if until_s > self._clock_s():
            until = time_of(to_time(round(until_s * 1000)))
            which = "no producer id" if below is None else f"only producer ids from {below} on"
            self._tell(f"learning until {until}: until then it charges {which}")

    def observe(self, batch: BatchSummary) -> None:
        """Print changed quotas and the first decision of a committed batch."""
        if batch.quotas is not None:
            self.use(batch.quotas)
        decisions = batch.rows.get("throttle_decisions", [])
        throttles = [each for each in decisions if each["action"] == "THROTTLE"]
        with self._lock:
            self._since.decisions += len(decisions)
            is_first = bool(throttles) and not self._has_decided
            self._has_decided |= is_first
        if is_first:
            follow = "pid-quota sql --view throttle_decisions --follow"
            self._tell(f"first decision: {_throttle(throttles[0])}. See them all: {follow}")

    def use(self, quotas: Quotas) -> None:
        """Print the quotas in force if they have changed."""
        before, self._quotas = self._quotas, quotas
        if quotas != before:
            self._tell(f"quotas in force: {self._in_force(quotas)}")

    def report(self, progress: Progress) -> None:
        """Count a micro-batch, and print a line if a line is due."""
        if progress.query != STREAM_QUERY:
            return
        with self._lock:
            since = self._since
            if since.behind is None:
                # The time in which Spark started must not lower the rate of the first batch.
                since.at_s = max(since.at_s, self._clock_s() - progress.batch_seconds)
                since.behind = progress.records_behind + progress.records
            since.records += progress.records
            since.longest_batch_s = max(since.longest_batch_s, progress.batch_seconds)
        self._line(progress.records_behind)

    def idle(self, query: str) -> None:
        """After a trigger without records, print a line if a line is due."""
        if query == STREAM_QUERY:
            self._line(0)

    def _line(self, behind: int) -> None:
        with self._lock:
            since, now_s = self._since, self._clock_s()
            elapsed_s = now_s - since.at_s
            if elapsed_s < (CATCHING_UP_EVERY_S if behind else LINE_EVERY_S):
                return
            self._since = _Since(now_s, behind=behind)
        totals = self._totals()
        parts = [
            f"{_rate(since.records / elapsed_s)} records/s",
            _left(since.behind or 0, behind, elapsed_s) if behind else "0 records behind",
            f"longest batch {since.longest_batch_s:.1f} s",
            plural(totals.principals, "active principal"),
            f"{totals.throttled:,} throttled",
        ]
        if since.decisions:
            parts.append(plural(since.decisions, "new decision"))
        self._tell(", ".join(parts))

    def _in_force(self, quotas: Quotas) -> str:
        parts = []
        if quotas.default.producer_ids_rate is not None:
            parts.append(f"{self._limit(quotas.default)} by default")
        if quotas.users:
            parts.append(f"{plural(len(quotas.users), 'user')} with one of their own")
        return ", ".join(parts) or "none, so nobody is throttled. Set one: pid-quota quotas --help"

    def _limit(self, limit: Limit) -> str:
        burst = "" if limit.producer_ids_burst is None else f" (burst {human(limit.producer_ids_burst)})"
        return f"{human(limit.producer_ids_rate)} new PIDs per {self._window_seconds:,} s{burst}"

    def _tell(self, text: str) -> None:
        self._say(text, self._clock_s())


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 or not per_s else f"{per_s:.2g}"


def _left(before: int, behind: int, elapsed_s: float) -> str:
    """Return a text with the number of unread records, and the time until the stream has read them.

    Examples:
        >>> _left(200_000, 150_000, 10.0), _left(150_000, 160_000, 10.0)
        ('catching up: 150,000 records behind, about 30 s left', 'falling behind: 160,000 records behind')
    """
    if behind >= before:
        return f"falling behind: {behind:,} records behind"
    left_s = behind * elapsed_s / (before - behind)
    return f"catching up: {behind:,} records behind, about {duration(left_s)} left"


def _throttle(row: Mapping[str, Any]) -> str:
    until = time_of(to_time(row["throttled_until"]))
    return f"{row['principal']} is over its quota of {human(row['quota'])}, throttled until {until}"

"""The driver's thread that carries out decisions. A topic of holds without a leader never stops the stream."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.enforcement.enforcer import Decisions, Enforcer, Note, Standing
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.enforcement.model import Limits, NewestDecision
from broker.errors import BrokerError
from jobs.output.human import time_of
from jobs.stream.narration import print_line
from quota.limits import Quotas
from tables.errors import TablesError
from tables.times import to_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from streaming.commit.sinks import BatchSummary

EVERY_S = 1.0
RETRY_S = 5.0
QUOTAS_EVERY_S = 10.0
"""Without a batch, quotas are read this often while somebody is throttled."""
MAX_NOTES = 10_000

logger = logging.getLogger(__name__)


class HoldNotes:
    """Rows of the table `holds` that wait for the report query (`streaming.reports.hold_rows`). Thread-safe.

    A pickled copy, as in Spark Connect, is empty.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []

    def __reduce__(self) -> tuple[type[HoldNotes], tuple[()]]:
        return HoldNotes, ()

    def add(self, note: Note, writer: str) -> None:
        """Add a note. Only decisions that hold nobody make a row: the topic tells of holds."""
        if note.state not in ("would_hold", "left_out"):
            return
        row = {
            "recorded_at": note.at_ms,
            "state": note.state,
            "principal": note.principal,
            "decision_id": note.decision_id,
            "until": note.until_ms,
            "writer": writer,
            "reason": note.reason or None,
            "init_every_ms": note.init_every_ms,
        }
        with self._lock:
            if len(self._rows) < MAX_NOTES:
                self._rows.append(row)

    def pending(self) -> list[dict[str, Any]]:
        """Return the rows that are not written yet."""
        with self._lock:
            return list(self._rows)

    def written(self, count: int) -> None:
        """Drop the first rows, which the table has."""
        with self._lock:
            del self._rows[:count]


class EnforcingThread:
    """Plans once a second and after each commit."""

    def __init__(
        self,
        config: Mapping[str, str],
        limits: Limits,
        window_ms: int,
        notes: HoldNotes,
        say: Callable[[str, float], None] = print_line,
    ) -> None:
        """Create the thread. `config` has librdkafka's settings."""
        self._config, self._limits, self._window_ms, self._notes, self._say = config, limits, window_ms, notes, say
        self._wake = threading.Condition()
        # Guarded by `_wake`.
        self._decisions, self._quotas, self._has_news = Decisions(), Quotas(), False
        self._now_ms: Callable[[], int | None] = lambda: None
        self._quotas_at_s = 0.0
        self._is_stopped = False
        self._trouble = ""
        self._planned_s = 0.0
        self._writer = ""
        self._find_quotas: Callable[[], Quotas] = Quotas
        self._enforcer: Enforcer | None = None
        self._thread = threading.Thread(target=self._run, name="pid-quota-enforcing", daemon=True)

    def standing(self) -> Standing:
        """Return what holds are like now."""
        found = self._enforcer.standing if self._enforcer else Standing()
        return replace(found, planned_s=self._planned_s)

    def restore(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take decisions from before the start, as rows with times in ms. Call this before `start`."""
        self._decisions.see((decision_of(each) for each in rows), None, is_committed_now=False)

    def start(self, writer: str, read_quotas: Callable[[], Quotas]) -> None:
        """Begin, unless it has begun. `writer` is the stream's id. `read_quotas` reads the quotas in force."""
        if self._enforcer is not None:
            return
        self._writer, self._find_quotas = writer, read_quotas
        start_ms = time.time_ns() // 1_000_000
        self._enforcer = Enforcer(self._limits, self._window_ms, writer, self._take_note, start_ms=start_ms)
        self._thread.start()

    def observe(self, batch: BatchSummary) -> None:
        """Take a committed batch. The thread plans at once."""
        with self._wake:
            self._see(batch, self._now_ms())
            self._has_news = True
            self._wake.notify()

    def close(self) -> None:
        """End. Holds last until they run out, so that a restarted stream goes on with them."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(2 * EVERY_S)

    def _run(self) -> None:
        while not self._is_stopped:
            try:
                with HoldTopic(self._config) as topic:
                    self._now_ms = partial(_now_ms, topic)
                    while not (self._is_stopped or topic.is_stale()) and self._enforcer is not None:
                        self._step(topic, self._enforcer)
                        self._tell_trouble("")
                        self._rest(EVERY_S)
                    if self._is_stopped and self._enforcer is not None:
                        self._enforcer.leave(topic)
            except (BrokerError, TablesError) as error:
                self._tell_trouble(str(error))
                self._rest(RETRY_S)
            except Exception as error:
                # Whatever went wrong, the next try may go well. Without this thread, nobody would be held any more.
                reason = f"{type(error).__name__}: {error}"
                if reason != self._trouble:
                    self._trouble = reason
                    logger.exception("holds: %s", reason)
                self._rest(RETRY_S)

    def _step(self, topic: HoldTopic, enforcer: Enforcer) -> None:
        self._read_quotas()
        with self._wake:
            self._has_news = False
            decisions, quotas = self._decisions.copy(), self._quotas
        enforcer.step(topic, decisions, quotas, steady_ms())
        self._planned_s = time.time()

    def _see(self, batch: BatchSummary, now_ms: int | None) -> None:
        if batch.quotas is not None:
            self._quotas, self._quotas_at_s = batch.quotas, time.monotonic()
        for row in batch.rows.get("producer_id_metrics", ()):
            self._decisions.see_ledger(
                row["principal"], is_saturated=row["saturated"], is_learning=row["phase"] == "learning"
            )
        rows = batch.rows.get("throttle_decisions", ())
        self._decisions.see(map(decision_of, rows), now_ms, is_committed_now=True)
        if now_ms is not None:
            self._decisions.forget_over(now_ms)

    def _read_quotas(self) -> None:
        """Read the quotas if no batch has brought them lately: a removed quota must end a hold though nobody writes."""
        is_old = time.monotonic() - self._quotas_at_s > QUOTAS_EVERY_S
        if is_old and self._decisions.newest:
            found = self._find_quotas()
            with self._wake:
                self._quotas, self._quotas_at_s = found, time.monotonic()

    def _rest(self, seconds: float) -> None:
        with self._wake:
            if not self._has_news and not self._is_stopped:
                self._wake.wait(seconds)

    def _tell_trouble(self, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            self._say(f"holds: {text}" if text else "holds: all is well again", time.time())

    def _take_note(self, note: Note) -> None:
        self._notes.add(note, self._writer)
        self._say(line_of(note), time.time())


def _now_ms(topic: HoldTopic) -> int | None:
    return topic.state.time.now_ms(steady_ms())


def decision_of(row: Mapping[str, Any]) -> NewestDecision:
    """Return a row of `throttle_decisions`, with times in ms, as a decision."""
    return NewestDecision(
        row["decision_id"],
        row["principal"],
        row["decided_at"],
        row["throttled_until"],
        row["decided_at"],
        row["tokens"],
        row["quota"],
        row["refused_pids"] or 0,
        is_throttle=row["action"] == "THROTTLE",
    )


def line_of(note: Note) -> str:
    """Return a note as a line.

    Examples:
        >>> line_of(Note(0, "left_out", "User:etl", "it is never held (--never, or the stream's own user)"))
        "User:etl is over its quota and not held: it is never held (--never, or the stream's own user)"
    """
    until = "" if note.until_ms is None else f" until {time_of(to_time(note.until_ms))}"
    match note.state:
        case "held":
            return f"{note.principal} is on hold{until}: its new producer ids wait"
        case "would_hold":
            return f"{note.principal} would be on hold{until} (--enforce is not set)"
        case "ended":
            return f"{note.principal} is no longer on hold"
        case "alert":
            return note.reason
        case _:
            return f"{note.principal} is over its quota and not held: {note.reason}"

"""Makes rows of the table `holds` from the records of `pid-quota-holds` and from the brokers' reports."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wire.holds import EVERYBODY, Hold, HoldRecord
from wire.plugin_reports import HeldPrincipal, HoldReport, is_overtaken

COUNTS_MS = 60_000
"""Minimum time between two rows that only tell new counts of a hold on a broker. Brokers report every 10 s."""
STEP_MS = 1_000
"""A time that moved by less is the same time: a broker counts by one clock and reports by another."""
MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: Python's datetime takes no later one."""
NOT_REPORTED = "not reported"
"""Reason of the end of a hold that a broker no longer reports, although it never reported the end."""

Row = dict[str, Any]
"""A row of `holds`, with times in milliseconds since the epoch."""


class DatedRecord(NamedTuple):
    """A record of `pid-quota-holds`, and the time (ms) at which a broker appended it."""

    record: HoldRecord
    appended_ms: int


class DatedReport(NamedTuple):
    """A report of a broker's holds, and the time (ms) at which a broker appended it."""

    report: HoldReport
    appended_ms: int


@dataclass(frozen=True)
class _Told:
    """What the newest row tells of a hold on a broker."""

    held: HeldPrincipal
    at_ms: int


class HoldWatch:
    """Remembers what rows tell already, so that a report without news makes no row. Not thread-safe.

    `rows` remembers nothing by itself: after a failed write, it returns the same rows again.
    """

    def __init__(self) -> None:
        """Create a watch that knows no row. After a restart, each hold in force makes a row again."""
        self._told: dict[tuple[int, str], _Told] = {}
        self._ignored: dict[int, str] = {}
        self._newest_ms: dict[int, int] = {}
        self._next = (self._told, self._ignored, self._newest_ms)

    def rows(self, records: Iterable[DatedRecord], reports: Sequence[DatedReport]) -> list[Row]:
        """Return the rows of a batch's records and reports, which must be in the order of their topics."""
        told, ignored, newest_ms = dict(self._told), dict(self._ignored), dict(self._newest_ms)
        self._next = (told, ignored, newest_ms)
        rows = [record_row(each) for each in records]
        for each in reports:
            if not is_overtaken(each.report, newest_ms.get(each.report.broker_id, 0)):
                newest_ms[each.report.broker_id] = each.report.timestamp_ms
                rows += _report_rows(each, told)
                rows += _ignored_rows(each, ignored)
        return rows

    def written(self) -> None:
        """Remember the rows that the newest call of `rows` returned, because the table has them."""
        self._told, self._ignored, self._newest_ms = self._next


def record_row(dated: DatedRecord) -> Row:
    """Return a record of `pid-quota-holds` as a row."""
    record, at_ms = dated
    content = record.content
    row: Row = {
        "recorded_at": at_ms,
        "principal": None if record.principal == EVERYBODY and record.is_release else record.principal,
    }
    if content is None:
        return row | {"state": "release_ended" if record.is_release else "removed"}
    if isinstance(content, Hold):
        return row | {
            "state": "written",
            "decision_id": content.decision_id or None,
            "until": at_ms + content.hold_ms,
            "writer": content.writer,
            "reason": content.reason or None,
            "init_every_ms": content.init_every_ms,
        }
    return row | {"state": "released", "until": at_ms + content.release_ms, "writer": content.by or None}


def _report_rows(dated: DatedReport, told: dict[tuple[int, str], _Told]) -> Iterator[Row]:
    """Yield the rows of a report's holds, and note in `told` what they tell."""
    report, at_ms = dated
    in_force = set()
    # A hold may have ended and begun again since the report before.
    for held in sorted(report.held, key=lambda each: not each.ended):
        key = (report.broker_id, held.principal)
        if held.ended:
            told.pop(key, None)
            yield _held_row(dated, held, "ended", held.ended)
            continue
        in_force.add(key)
        if _has_news(told.get(key), held, at_ms):
            told[key] = _Told(held, at_ms)
            yield _held_row(dated, held, "in_force", None)
    ended = {held.principal for held in report.held if held.ended}
    # A report has all holds of its broker. A report in between may be lost.
    for key in [key for key in told if key[0] == report.broker_id and key not in in_force]:
        last = told.pop(key).held
        if key[1] not in ended:
            yield _held_row(dated, last, "ended", NOT_REPORTED)


def _has_news(told: _Told | None, held: HeldPrincipal, at_ms: int) -> bool:
    if told is None:
        return True
    known = told.held
    if (known.decision_id, known.writer) != (held.decision_id, held.writer):
        return True
    if max(abs(known.since_ms - held.since_ms), abs(known.ends_ms - held.ends_ms)) >= STEP_MS:
        return True
    counts, known_counts = (held.held_requests, held.let_in), (known.held_requests, known.let_in)
    return counts != known_counts and at_ms - told.at_ms >= COUNTS_MS


def _held_row(dated: DatedReport, held: HeldPrincipal, state: str, reason: str | None) -> Row:
    report, at_ms = dated
    # Brokers' clocks differ. The append time is of one broker's clock, so all times refer to it.
    since_ms, until_ms = (
        min(max(0, at_ms + of_broker_ms - report.timestamp_ms), MAX_MS)
        for of_broker_ms in (held.since_ms, held.ends_ms)
    )
    return {
        "recorded_at": at_ms,
        "state": state,
        "principal": held.principal,
        "decision_id": held.decision_id or None,
        "broker_id": report.broker_id,
        "since": since_ms,
        "until": min(until_ms, at_ms) if state == "ended" else until_ms,
        "writer": held.writer or None,
        "reason": reason,
        "held_requests": held.held_requests,
        "let_in": held.let_in,
    }


def _ignored_rows(dated: DatedReport, ignored: dict[int, str]) -> Iterator[Row]:
    """Yield a row if a broker ignored another record than `ignored` tells of it."""
    report, at_ms = dated
    if report.ignored is None:
        ignored.pop(report.broker_id, None)
    elif ignored.get(report.broker_id) != report.ignored:
        ignored[report.broker_id] = report.ignored
        yield {
            "recorded_at": at_ms,
            "state": "ignored",
            "broker_id": report.broker_id,
            "reason": report.ignored,
        }

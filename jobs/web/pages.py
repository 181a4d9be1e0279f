"""The web console's pages as JSON values, with a method per page."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobs.lifecycle.why import evidence_text
from jobs.output.json_out import json_value
from jobs.output.shell_commands import release
from jobs.principals import similar
from jobs.web import queries as web_sql
from jobs.web.occupancy_charts import failover_bounds, sweeps_over_time
from jobs.web.row_filters import DAY_HOURS, HOLD_DAYS, last_day, later_than, present_holds, recent_decisions
from jobs.web.timelines import (
    interval_ms,
    lines_of,
    merged,
    per_minute,
    spans_of,
    step_ms_of,
    thinned,
)
from lifecycle.churn import HARMLESS, Churn, diagnosis_text, what_decides
from lifecycle.churn_fixes import FIXES
from tables.query.churn_clients import CLIENTS, causes_of, diagnosis_of, lives_by_tables
from tables.query.freshness import read_freshness
from tables.query.principal_facts import HELD, HOLD
from tables.query.sql_query import opened
from tables.store.base import Relations
from tables.store.values import RowFilter
from tables.times import to_ms

SPANS_HOURS = (0.1, 1, 6, 24, 168, 720)
"""Time spans of a principal's page."""
OVERVIEW_SPANS_HOURS = (1, 6, 24, 168)
"""Time spans of the overview's plot."""
HISTORY_SPANS_HOURS = (24, 168, 720, 8760)
"""Time spans of the pages of all decisions and all holds."""
_OVERVIEW_HOURS = 6
"""Hours of metrics that the overview's figures cover."""
_HISTORY_LISTED = 1_000
_LISTED = 2_000


@dataclass(frozen=True)
class ConsoleData:
    """The data of the pages."""

    tables: str

    def opened(self, now: datetime, rows: Mapping[str, RowFilter]) -> AbstractContextManager[Relations]:
        """Open tables for several queries; see `TableStore.relations`."""
        return opened(self.tables, now, rows)

    def freshness(self, now: datetime) -> dict[str, Any]:
        """Return the time of the newest row, and a warning if the tables are stale."""
        found = read_freshness(self.tables, now)
        page: dict[str, Any] = json_value(
            {
                "stale": found.is_stale,
                "last_row_at": found.last_row_at,
                "since": found.since,
                "warning": found.warning(),
                "look": found.look,
            }
        )
        return page

    def overview(self, now: datetime) -> dict[str, Any]:
        """Return the overview's figures: totals, who is throttled, and the stream's health."""
        since = now - timedelta(hours=_OVERVIEW_HOURS)
        rows = {
            "producer_id_metrics": later_than("window_end", since),
            "throttle_decisions": recent_decisions(now),
            "quarantined_events": RowFilter(columns=("record_timestamp",)),
            **present_holds(now),
            "broker_status": later_than("seen_at", now - timedelta(hours=DAY_HOURS)),
            "producer_inits": later_than("answered_at", now - timedelta(days=2)),
        }
        with self.opened(now, rows) as relations:
            intervals = relations.ask(web_sql.INTERVALS, {"since_ms": to_ms(since)}).records()
            (health,) = relations.ask("SELECT * FROM stream_health").records()
            throttled = relations.ask(web_sql.THROTTLED).records()
            held = {row["principal"] for row in throttled}
            causes = causes_of(relations.ask(CLIENTS).records(), held) if held else {}
            page = {
                "totals": relations.ask(web_sql.TOTALS).records()[0],
                "per_minute": per_minute(intervals, now),
                "interval_seconds": interval_ms(intervals) / 1000,
                "throttled": [row | {"looks_like": causes.get(row["principal"])} for row in throttled],
                "health": health,
                "brokers": relations.ask("SELECT * FROM broker_coverage").records(),
            }
            if health["newest_row_at"] is None:
                health |= self._last_sign(now)
            return self.framed(now, relations, page)

    def activity(self, now: datetime, hours: float) -> dict[str, Any]:
        """Return the new producer ids of all principals over time."""
        since = now - timedelta(hours=hours)
        with self.opened(now, {"producer_id_metrics": later_than("window_end", since)}) as relations:
            intervals = relations.ask(web_sql.INTERVALS, {"since_ms": to_ms(since)}).records()
            first_ms = intervals[0]["at_ms"] if intervals else to_ms(since)
            step_ms = max(interval_ms(intervals), step_ms_of(to_ms(now) - first_ms))
            page = {
                "hours": hours,
                "since_ms": to_ms(since),
                "step_seconds": step_ms / 1000,
                "intervals": _columns(thinned(intervals, step_ms), ("at_ms", "admitted_pids", "refused_pids")),
            }
            return self.framed(now, relations, page)

    def offenders(self, now: datetime) -> dict[str, Any]:
        """Return the top principals of the last 24 hours, ranked by refused, then by new producer ids."""
        with self.opened(now, last_day(now)) as relations:
            page = {"offenders": relations.ask(web_sql.OFFENDERS).records()}
            return self.framed(now, relations, page)

    def headroom(self, now: datetime) -> dict[str, Any]:
        """Return the share of its quota that each principal of the last 24 hours uses, greatest share first."""
        with self.opened(now, last_day(now)) as relations:
            held = {row["principal"] for row in relations.ask(web_sql.THROTTLED).records()}
            records = relations.ask(web_sql.HEADROOM).records()
            for row in records:
                row["throttled_now"] = row["principal"] in held
            page = {"principals": records, "complete": len(records) < _LISTED}
            return self.framed(now, relations, page)

    def principal(self, now: datetime, name: str, hours: float = 24) -> dict[str, Any]:
        """Return a principal over time."""
        since = now - timedelta(hours=hours)
        mine = {"principal": name}
        rows = {
            "producer_id_metrics": later_than("window_end", since, name),
            "throttle_decisions": later_than("throttled_until", since, name),
            **present_holds(now, name),
            # The previous day shows which transactional ids already had a producer id.
            "producer_inits": later_than("answered_at", now - timedelta(days=2), name),
        }
        with self.opened(now, rows) as relations:
            now_row = next(iter(relations.ask(web_sql.LEDGER, mine).records()), None)
            first_ms = relations.ask(web_sql.FIRST_ROW, mine).records()[0]["first_ms"] or to_ms(since)
            step_ms = step_ms_of(to_ms(now) - first_ms)
            timeline = relations.ask(web_sql.TIMELINE, mine | {"step_ms": step_ms})
            times, lines = timeline.records(), [name for name in timeline.columns if name not in _COUNTS]
            decisions = relations.ask(web_sql.DECISIONS).records()
            page = {
                "principal": name,
                "hours": hours,
                "since_ms": to_ms(since),
                "step_seconds": step_ms / 1000,
                "now_row": now_row,
                "timeline": _columns(lines_of(times, now, relations.settings().window_seconds * 1000, step_ms), lines),
                "counts": _columns(times, ("at_ms", *_COUNTS)),
                "throttles": merged(spans_of(decisions)),
                "decisions": decisions,
                "hold": next(iter(relations.ask(HOLD, mine).records()), None),
                "held": next(iter(relations.ask(HELD, mine).records()), None),
                "release_command": release(relations.settings().bootstrap_servers, name),
                "churn": [_with_diagnosis(row) for row in relations.ask(web_sql.CHURN, mine).records()],
            }
            if now_row is None and not decisions:
                page["similar"] = self._similar(now, since, name)
            return self.framed(now, relations, page)

    def occupancy(self, now: datetime) -> dict[str, Any]:
        """Return the producer state that brokers hold, and the effect of each broker's failure."""
        rows = {"producer_occupancy": later_than("swept_at", now - timedelta(days=7))}
        with self.opened(now, rows) as relations:
            held = relations.ask(web_sql.OCCUPANCY).records()
            page = {
                "rows": [{name: row[name] for name in row if name != "idle_hours"} for row in held[:200]],
                "more_rows": max(0, len(held) - 200),
                "principals": relations.ask(web_sql.HOLDERS).records(),
                **sweeps_over_time(relations.ask(web_sql.SWEEPS).records()),
                **failover_bounds(held),
            }
            return self.framed(now, relations, page)

    def decisions(self, now: datetime, hours: float, name: str) -> dict[str, Any]:
        """Return the decisions of a time span, the newest first."""
        rows = {"throttle_decisions": later_than("decided_at", now - timedelta(hours=hours), name)}
        with self.opened(now, rows) as relations:
            found = relations.ask(web_sql.DECISIONS).records()
            shown, complete = found[:_HISTORY_LISTED], len(found) <= _HISTORY_LISTED
            return self.framed(now, relations, {"name": name, "hours": hours, "decisions": shown, "complete": complete})

    def holds(self, now: datetime, hours: float, name: str) -> dict[str, Any]:
        """Return who is on hold now, and what is known of all holds in a time span, the newest first."""
        since = now - timedelta(hours=hours)
        rows = present_holds(min(now, since + timedelta(days=HOLD_DAYS)), name)
        rows["throttle_decisions"] = recent_decisions(now)
        with self.opened(now, rows) as relations:
            servers = relations.settings().bootstrap_servers
            found = relations.ask(web_sql.HOLDS_NOW).records()
            facts = relations.ask(web_sql.HOLD_FACTS, {"since_ms": to_ms(since)}).records()
            page = {
                "name": name,
                "hours": hours,
                "holds": [
                    row | {"release_command": release(servers, row["principal"])} for row in found[:_HISTORY_LISTED]
                ],
                "release_command": release(servers, None),
                "facts": facts[:_HISTORY_LISTED],
                "complete": max(len(found), len(facts)) <= _HISTORY_LISTED,
            }
            return self.framed(now, relations, page)

    def framed(self, now: datetime, relations: Relations, page: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page as JSON values, with the fields that all pages have."""
        settings = relations.settings()
        plain: dict[str, Any] = json_value(
            {
                "now": now,
                "tables": self.tables,
                "cluster": settings.bootstrap_servers,
                "window_seconds": settings.window_seconds,
                "missing": relations.missing,
                **page,
            }
        )
        return plain

    def _similar(self, now: datetime, since: datetime, name: str) -> list[str]:
        rows = replace(later_than("window_end", since), columns=("principal",))
        with self.opened(now, {"producer_id_metrics": rows}) as relations:
            known = [row["principal"] for row in relations.ask(web_sql.NAMES).records()]
        return similar(name, known)

    def _last_sign(self, now: datetime) -> dict[str, Any]:
        with self.opened(now, {"producer_id_metrics": RowFilter(columns=("as_of",))}) as relations:
            newest = relations.ask(web_sql.NEWEST).records()[0]["newest_row_at"]
        return {"newest_row_at": newest, "silent_seconds": None if newest is None else (now - newest).total_seconds()}


_COUNTS = ("admitted_pids", "refused_pids", "late_pids")


def _with_diagnosis(row: Mapping[str, Any]) -> dict[str, Any]:
    diagnosis = diagnosis_of(row)
    shown = ("client", "new_pids", "pids_per_hour", "span_seconds")
    return {name: row[name] for name in shown} | {
        "kind": diagnosis.kind.value,
        "text": diagnosis_text(diagnosis),
        "evidence": evidence_text(row),
        "decides": what_decides(diagnosis, with_lives=lives_by_tables(row) is not None),
        "fixes": [
            {"kind": kind.value, "harmless": kind in HARMLESS, **asdict(FIXES[kind])}
            for kind in diagnosis.fitting
            if kind is not Churn.HEALTHY
        ],
    }


def _columns(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [record[name] for record in records] for name in names}

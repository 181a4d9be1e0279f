"""The web console's pages as JSON values: a method per page, which opens the tables once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import pairwise, zip_longest
from typing import Any

from jobs.tables_out import json_value
from jobs.web import queries as web_sql
from jobs.web.diagnoses import diagnosed, similar
from jobs.web.occupancy_charts import failover_bounds, sweeps_over_time
from quota.config import QuotaConfig
from tables.query.freshness import STALE_AFTER_S, read_freshness
from tables.query.relations import Relations, Rows, opened

OVERVIEW_HOURS = 6
SPANS_HOURS = (0.1, 1, 6, 24, 168, 720)
"""Time spans of a principal's page."""

_POINTS = 360
"""Most points of a chart: two pixels each on a wide screen."""
_LISTED = 2_000
_DAY_HOURS = 25
"""A day, and the hour before that its first interval needs."""


@dataclass(frozen=True)
class ConsoleData:
    """Reads the data of the pages.

    Attributes:
        tables: Folder of the path tables, or `catalog.schema`.
        config: Window and burst for the views' tokens.
        stale_after_s: Silence in seconds after which the tables do not tell what is so now.
    """

    tables: str
    config: QuotaConfig = field(default_factory=QuotaConfig)
    stale_after_s: float = STALE_AFTER_S

    def freshness(self, now: datetime) -> dict[str, Any]:
        """Return when the newest row is from, and the warning if that is long ago."""
        found = read_freshness(self.tables, now, self.stale_after_s)
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
        """Return the overview: totals, new producer ids over time, who is throttled, and the stream's health."""
        since = now - timedelta(hours=OVERVIEW_HOURS)
        rows = {
            "producer_id_metrics": _later_than("window_end", since),
            "throttle_decisions": _recent_decisions(now),
            "quarantined_events": Rows(columns=("record_timestamp",)),
            "tap_status": _later_than("seen_at", now - timedelta(hours=_DAY_HOURS)),
        }
        with opened(self.tables, now, self.config, rows) as relations:
            intervals = relations.ask(web_sql.INTERVALS, {"since_ms": _ms(since)}).records()
            (health,) = relations.ask("SELECT * FROM stream_health").records()
            page = {
                "totals": relations.ask(web_sql.TOTALS).records()[0],
                "per_minute": _per_minute(intervals, now),
                "intervals": _columns(_thinned(intervals), ("at_ms", "admitted_pids", "refused_pids")),
                "interval_seconds": _interval_ms(intervals) / 1000,
                "step_seconds": _step_ms(intervals) / 1000,
                "throttled": relations.ask(web_sql.THROTTLED).records(),
                "health": health,
                "taps": relations.ask("SELECT * FROM tap_coverage").records(),
            }
        if health["newest_row_at"] is None:
            health |= self._last_sign(now)
        return self.framed(now, relations, page)

    def offenders(self, now: datetime) -> dict[str, Any]:
        """Return the principals with most refused producer ids in the last 24 hours."""
        rows = {
            "producer_id_metrics": _later_than("window_end", now - timedelta(hours=_DAY_HOURS)),
            "throttle_decisions": _recent_decisions(now),
        }
        with opened(self.tables, now, self.config, rows) as relations:
            page = {"offenders": relations.ask(web_sql.OFFENDERS).records()}
        return self.framed(now, relations, page)

    def headroom(self, now: datetime) -> dict[str, Any]:
        """Return the headroom of each principal active in the last 24 hours, the smallest first."""
        rows = {
            "producer_id_metrics": _later_than("window_end", now - timedelta(hours=_DAY_HOURS)),
            "throttle_decisions": _recent_decisions(now),
        }
        with opened(self.tables, now, self.config, rows) as relations:
            held = {(row["principal"], row["broker_id"]) for row in relations.ask(web_sql.THROTTLED).records()}
            records = relations.ask(web_sql.HEADROOM).records()
            for row in records:
                row["throttled_now"] = (row["principal"], row["broker_id"]) in held
            page = {"principals": records, "complete": len(records) < _LISTED}
        return self.framed(now, relations, page)

    def principal(self, now: datetime, name: str, hours: float = 24, broker_id: int | None = None) -> dict[str, Any]:
        """Return one principal over time.

        Args:
            now: The present.
            name: Such as `User:alice`.
            hours: How far to look back.
            broker_id: Broker of the ledger, in scope `broker`; None takes the one nearest to its quota.
        """
        since, early = now - timedelta(hours=hours), now - timedelta(days=2)
        mine = {"principal": name}
        who = "principal = :principal"
        rows = {
            "producer_id_metrics": Rows(
                f"{who} AND window_end > :since", mine | {"since": since}, newer_than=("window_end", since)
            ),
            "throttle_decisions": Rows(
                f"{who} AND throttled_until > :since", mine | {"since": since}, newer_than=("throttled_until", since)
            ),
            "enforcement_actions": Rows(who, mine),
            # Two days suffice to tell nearly all new ids from first ones.
            "producer_inits": Rows(
                f"{who} AND answered_at > :early", mine | {"early": early}, newer_than=("answered_at", early)
            ),
        }
        step_ms = round(hours * 3_600_000 / _POINTS)
        with opened(self.tables, now, self.config, rows) as relations:
            ledgers = relations.ask(web_sql.LEDGERS, mine).records()
            chosen = _chosen(ledgers, broker_id)
            whose = mine | {"broker_id": -1 if chosen is None else chosen}
            times = relations.ask(web_sql.TIMELINE, whose | {"step_ms": step_ms}).records()
            decisions = relations.ask(web_sql.DECISIONS, whose).records()
            page = {
                "principal": name,
                "hours": hours,
                "since_ms": _ms(since),
                "broker_id": chosen,
                "brokers": sorted(row["broker_id"] for row in ledgers if row["broker_id"] is not None),
                "now_row": next((row for row in ledgers if row["broker_id"] == chosen), None),
                "timeline": _columns(_lines(times, now, self.config.window_ms, step_ms), _LINES),
                "counts": _columns(times, _COUNTS),
                "throttles": _merged(_held(decisions)),
                "decisions": decisions,
                "leases": relations.ask(web_sql.LEASES, mine).records(),
                "churn": diagnosed(relations.ask(web_sql.CHURN, mine).records()),
            }
        if not ledgers and not decisions:
            page["similar"] = self._similar(now, since, name)
        return self.framed(now, relations, page)

    def occupancy(self, now: datetime) -> dict[str, Any]:
        """Return what brokers hold of producers, and the effect of losing each broker."""
        rows = {"producer_occupancy": _later_than("swept_at", now - timedelta(days=7))}
        with opened(self.tables, now, self.config, rows) as relations:
            held = relations.ask(web_sql.OCCUPANCY).records()
            page = {
                "rows": [{name: row[name] for name in row if name != "idle_hours"} for row in held[:200]],
                "more_rows": max(0, len(held) - 200),
                **sweeps_over_time(relations.ask(web_sql.SWEEPS).records()),
                **failover_bounds(held),
            }
        return self.framed(now, relations, page)

    def framed(self, now: datetime, relations: Relations, page: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page as JSON values, with what all pages have."""
        plain: dict[str, Any] = json_value(
            {
                "now": now,
                "tables": self.tables,
                "window_seconds": self.config.window_ms / 1000,
                "missing": relations.missing,
                **page,
            }
        )
        return plain

    def _similar(self, now: datetime, since: datetime, name: str) -> list[str]:
        rows = {
            "producer_id_metrics": Rows(
                "window_end > :since", {"since": since}, ("principal",), newer_than=("window_end", since)
            )
        }
        with opened(self.tables, now, self.config, rows) as relations:
            known = [row["principal"] for row in relations.ask(web_sql.NAMES).records()]
        return similar(name, known)

    def _last_sign(self, now: datetime) -> dict[str, Any]:
        with opened(self.tables, now, self.config, {"producer_id_metrics": Rows(columns=("as_of",))}) as relations:
            newest = relations.ask(web_sql.NEWEST).records()[0]["newest_row_at"]
        return {"newest_row_at": newest, "silent_seconds": None if newest is None else (now - newest).total_seconds()}


_LINES = ("at_ms", "new_pids_window", "quota", "tokens", "active_pids", "state_bytes", "layers")
_COUNTS = ("at_ms", "admitted_pids", "refused_pids", "late_pids")


def _later_than(column: str, since: datetime) -> Rows:
    return Rows(f"{column} > :since_{column}", {f"since_{column}": since}, newer_than=(column, since))


def _recent_decisions(now: datetime) -> Rows:
    condition = "decided_at > :day OR throttled_until > :present"
    day = now - timedelta(hours=_DAY_HOURS)
    # A throttle ends after it is decided.
    return Rows(condition, {"day": day, "present": now}, newer_than=("throttled_until", day))


def _chosen(ledgers: Sequence[Mapping[str, Any]], broker_id: int | None) -> int | None:
    brokers = [row["broker_id"] for row in ledgers]
    return broker_id if broker_id in brokers else next(iter(brokers), None)


def _per_minute(intervals: Sequence[Mapping[str, Any]], now: datetime) -> float | None:
    """Return the new producer ids per minute of the newest complete interval."""
    over = [row for row in intervals if row["at_ms"] <= _ms(now)]
    if not over:
        return None
    new_pids: int = over[-1]["admitted_pids"] + over[-1]["refused_pids"]
    return new_pids * 60_000 / _interval_ms(intervals)


def _interval_ms(intervals: Sequence[Mapping[str, Any]]) -> int:
    """Return the length of a metrics interval: the shortest distance of two, since no table holds it."""
    ends = [row["at_ms"] for row in intervals]
    return min((later - earlier for earlier, later in pairwise(ends)), default=60_000)


def _step_ms(intervals: Sequence[Mapping[str, Any]]) -> int:
    return max(_interval_ms(intervals), OVERVIEW_HOURS * 3_600_000 // _POINTS)


def _thinned(intervals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Downsample intervals to a few hundred; the last may be incomplete."""
    step_ms = _step_ms(intervals)
    sums: dict[int, dict[str, Any]] = {}
    for row in intervals:
        at_ms = -(-row["at_ms"] // step_ms) * step_ms
        found = sums.setdefault(at_ms, {"at_ms": at_ms, "admitted_pids": 0, "refused_pids": 0})
        found["admitted_pids"] += row["admitted_pids"]
        found["refused_pids"] += row["refused_pids"]
    return list(sums.values())


def _lines(times: Sequence[dict[str, Any]], now: datetime, window_ms: int, step_ms: int) -> list[Any]:
    filled = _with_silence(times, now, window_ms, step_ms)
    if times and times[0]["new_pids_window"] <= times[0]["admitted_pids"] + times[0]["refused_pids"]:
        # Its whole window lies in its first interval, so its line starts at 0.
        before_ms = times[0]["at_ms"] - max(step_ms, _interval_ms(times))
        filled.insert(0, _empty(times[0]) | {"at_ms": before_ms})
    return filled


def _empty(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with an empty window."""
    unknown = dict.fromkeys(("active_pids", "layers", "state_bytes"))
    return {**row, **unknown, "new_pids_window": 0, "tokens": row["quota"]}


def _with_silence(times: Sequence[dict[str, Any]], now: datetime, window_ms: int, step_ms: int) -> list[Any]:
    """Fill gaps in a ledger's rows: a silent ledger writes no row, but its window empties."""
    filled: list[Mapping[str, Any]] = []
    for row, later in zip_longest(times, times[1:]):
        filled.append(row)
        end_ms = _ms(now) if later is None else later["at_ms"] - 1
        if end_ms - row["at_ms"] > window_ms + step_ms:
            empty = _empty(row)
            filled += [empty | {"at_ms": row["at_ms"] + window_ms}, empty | {"at_ms": end_ms}]
        elif later is None and end_ms > row["at_ms"]:
            filled.append(row | {"at_ms": end_ms})
    return filled


def _held(decisions: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    rows = sorted(decisions, key=lambda row: (row["decided_at"], row["action"]))
    spans = []
    for row, later in zip_longest(rows, rows[1:]):
        until_ms = _ms(row["throttled_until"])
        if row["action"] == "THROTTLE":
            # The next decision supersedes this one: it may end the throttle sooner.
            spans.append((_ms(row["decided_at"]), min(until_ms, _ms(later["decided_at"])) if later else until_ms))
    return spans


def _merged(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Merge adjacent and overlapping spans, sorted by their start.

    Examples:
        >>> _merged([(1, 3), (2, 5), (7, 8)])
        [[1, 5], [7, 8]]
    """
    merged: list[list[int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def _columns(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [record[name] for record in records] for name in names}


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)

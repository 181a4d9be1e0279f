"""Data of the console's plots."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise, zip_longest
from typing import Any

from tables.times import to_ms

_POINTS = 360
"""Maximum number of points in a chart."""
_STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 240, 600, 1_800, 3_600)
_LONGEST_STEP_S = 7_200
_MINUTE_MS = 60_000


def per_minute(intervals: Sequence[Mapping[str, Any]], now: datetime) -> float | None:
    """Return new producer ids per minute, over the newest complete metrics interval or a minute, whichever is longer.

    Return None if no interval is complete.
    """
    over = [row for row in intervals if row["at_ms"] <= to_ms(now)]
    if not over:
        return None
    span_ms = max(interval_ms(intervals), _MINUTE_MS)
    last = [row for row in over if row["at_ms"] > over[-1]["at_ms"] - span_ms]
    new_pids: int = sum(row["admitted_pids"] + row["refused_pids"] for row in last)
    return new_pids * _MINUTE_MS / span_ms


def interval_ms(intervals: Sequence[Mapping[str, Any]]) -> int:
    """Return the length of a metrics interval: the shortest time between two rows."""
    ends = [row["at_ms"] for row in intervals]
    return min((later - earlier for earlier, later in pairwise(ends)), default=_MINUTE_MS)


def step_ms_of(shown_ms: float) -> int:
    """Return the length of a chart's steps in milliseconds. `shown_ms` is the time since the first row.

    Examples:
        >>> step_ms_of(24 * 3_600_000), step_ms_of(12 * 60_000)
        (240000, 2000)
    """
    return 1000 * next((step for step in _STEPS_S if step * 1000 * _POINTS >= shown_ms), _LONGEST_STEP_S)


def thinned(intervals: Sequence[Mapping[str, Any]], step_ms: int) -> list[dict[str, Any]]:
    """Add up the counts of each step's intervals."""
    sums: dict[int, dict[str, Any]] = {}
    for row in intervals:
        at_ms = -(-row["at_ms"] // step_ms) * step_ms
        found = sums.setdefault(at_ms, {"at_ms": at_ms, "admitted_pids": 0, "refused_pids": 0})
        found["admitted_pids"] += row["admitted_pids"]
        found["refused_pids"] += row["refused_pids"]
    return list(sums.values())


def lines_of(times: Sequence[dict[str, Any]], now: datetime, window_ms: int, step_ms: int) -> list[Any]:
    """Return a ledger's rows up to now, with rows for times without events, and an empty first row for a new ledger."""
    # The newest step has not ended yet, so the step's row gets the present time.
    times = [row | {"at_ms": min(row["at_ms"], to_ms(now))} for row in times]
    filled = _with_silence(times, now, window_ms, step_ms)
    if times and times[0]["new_pids_window"] <= times[0]["admitted_pids"] + times[0]["refused_pids"]:
        # The first interval has all new PIDs of the window, so the ledger is new, and the line starts at 0.
        before_ms = times[0]["at_ms"] - max(step_ms, interval_ms(times))
        filled.insert(0, _empty(times[0]) | {"at_ms": before_ms})
    return filled


def _empty(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with an empty window and a full bucket. Values that only events would show are None."""
    kept = {name: row[name] for name in ("at_ms", "quota", "burst")}
    return dict.fromkeys(row) | kept | {"new_pids_window": 0, "tokens": row["burst"] or row["quota"]}


def _with_silence(times: Sequence[dict[str, Any]], now: datetime, window_ms: int, step_ms: int) -> list[Any]:
    """Fill gaps in a ledger's rows. Without events, the stream writes no row while the ledger's window empties."""
    filled: list[Mapping[str, Any]] = []
    for row, later in zip_longest(times, times[1:]):
        filled.append(row)
        end_ms = to_ms(now) if later is None else later["at_ms"] - 1
        if end_ms - row["at_ms"] > window_ms + step_ms:
            empty = _empty(row)
            filled += [empty | {"at_ms": row["at_ms"] + window_ms}, empty | {"at_ms": end_ms}]
        elif later is None and end_ms > row["at_ms"]:
            filled.append(row | {"at_ms": end_ms})
    return filled


def spans_of(decisions: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return the spans under throttle, as start and end in ms."""
    rows = sorted(decisions, key=lambda row: (row["decided_at"], row["action"]))
    spans = []
    for row, later in zip_longest(rows, rows[1:]):
        until_ms = to_ms(row["throttled_until"])
        if row["action"] == "THROTTLE":
            # The next decision may end the throttle sooner.
            spans.append((to_ms(row["decided_at"]), min(until_ms, to_ms(later["decided_at"])) if later else until_ms))
    return spans


def merged(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Merge adjacent and overlapping spans, which must be sorted by their start.

    Examples:
        >>> merged([(1, 5), (2, 3), (4, 6), (7, 8)])
        [[1, 6], [7, 8]]
    """
    merged: list[list[int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged

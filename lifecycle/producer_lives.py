"""How long producer ids were in use: from the hand-out, which plugins see, to the last batch, which brokers remember.

Brokers can't tell which producers are open. An id counts as kept (still in use) if its time in use is at least the time
since its last batch, and no deploy replaced it (`lifecycle/generations.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lifecycle.generations import replaced
from lifecycle.occupancy import Int64s

YOUNG_MS = 2000
"""Ids younger than this are not classified."""
PAUSE_MS = 60_000
"""A client without a batch for longer than this has paused. Ids in use at its last batch count as kept."""
MIN_BEATS = 9
MAX_SLIP_MS = 8.0
"""Maximum drift of a schedule per period. Restarts of a process drift more."""


@dataclass(frozen=True)
class Life:
    """The time that a producer id was in use.

    Attributes:
        host: Address of the client that got the id.
        from_ms: When the id was handed out, in ms since the epoch.
        to_ms: Time of the last batch; `from_ms` without a batch.
    """

    host: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, kw_only=True)
class Lives:
    """Statistics over the lives of a client's producer ids.

    Attributes:
        kept_share: Share of kept ids (still in use, or in use when the client paused).
        kept_seconds: Median time in use of the kept ids.
        silent_seconds: Time since the client last wrote.
        used_seconds: Median time in use of the ended ids.
        used_spread: Interquartile range of the ended ids' times in use, divided by their median.
        down_seconds: Median time from the end of an id to the next id of its address; 0 if they overlap.
        down_spread: Interquartile range of these times, divided by their median.
        replaced_share: Share of the ended ids that a deploy replaced.
        on_schedule: Whether ids were handed out at a period of whole seconds, without drift.
    """

    kept_share: float
    kept_seconds: float = 0.0
    silent_seconds: float = 0.0
    used_seconds: float = 0.0
    used_spread: float = 0.0
    down_seconds: float = 0.0
    down_spread: float = 0.0
    replaced_share: float = 0.0
    on_schedule: bool = False


def lives_of(lives: Sequence[Life], now_ms: int) -> Lives | None:
    """Return statistics over one client's ids; None if all ids are too young.

    `now_ms` is the time when the brokers were asked.
    """
    known = sorted((each for each in lives if now_ms - each.from_ms >= YOUNG_MS), key=lambda each: each.from_ms)
    if not known:
        return None
    begins = np.array([each.from_ms for each in known], np.int64)
    ends = np.maximum(begins, np.array([each.to_ms for each in known], np.int64))
    last_ms = int(ends.max())
    seen_ms, silent_seconds = min(now_ms, last_ms + PAUSE_MS), max(0.0, (now_ms - last_ms) / 1000)
    was_replaced = replaced(begins, ends, seen_ms)
    kept = (ends - begins >= seen_ms - ends) & ~was_replaced
    kept_seconds = float(np.median((ends - begins)[kept])) / 1000 if kept.any() else 0.0
    if kept.all():
        return Lives(kept_share=1.0, kept_seconds=kept_seconds, silent_seconds=silent_seconds)
    used, down_ms = (ends - begins)[~kept], _down_ms(known)
    return Lives(
        kept_share=float(kept.mean()),
        kept_seconds=kept_seconds,
        silent_seconds=silent_seconds,
        used_seconds=float(np.median(used)) / 1000,
        used_spread=_spread(used),
        down_seconds=float(np.median(down_ms)) / 1000 if len(down_ms) else 0.0,
        down_spread=_spread(down_ms),
        replaced_share=float(was_replaced[~kept].mean()),
        on_schedule=all(_keep_step(times) for times in _by_host(known)),
    )


def _by_host(ordered: Sequence[Life]) -> Iterable[list[Life]]:
    by_host: dict[str, list[Life]] = defaultdict(list)
    for each in ordered:
        by_host[each.host].append(each)
    return by_host.values()


def _keep_step(lives: Sequence[Life]) -> bool:
    """Return whether hand-outs follow a fixed schedule.

    If each hand-out waits for the previous one, hand-outs drift.
    """
    if len(lives) < MIN_BEATS:
        return False
    times = np.array([each.from_ms for each in lives], np.float64)
    gaps_ms = np.diff(times)
    gap_ms = float(np.median(gaps_ms))
    period_ms = round(gap_ms / 1000) * 1000
    if not period_ms:
        return False
    beats = np.concatenate([[0.0], np.cumsum(np.round(gaps_ms / gap_ms))])
    late_ms = times - beats * period_ms
    third = len(times) // 3
    # A busy machine is sometimes late, but never early. So compare the smallest delay of the first third with that of
    # the last third.
    slip_ms = abs(float(late_ms[-third:].min() - late_ms[:third].min()))
    return slip_ms <= MAX_SLIP_MS * float(beats[-1]) * 2 / 3


def _down_ms(ordered: Sequence[Life]) -> Int64s:
    pairs = [pair for lives in _by_host(ordered) for pair in pairwise(lives)]
    return np.array([max(0, later.from_ms - earlier.to_ms) for earlier, later in pairs], np.int64)


def _spread(values: Int64s) -> float:
    if not len(values):
        return 0.0
    low, median, high = np.percentile(values, (25, 50, 75))
    return float(high - low) / max(1.0, float(median))

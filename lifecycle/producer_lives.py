"""How long producer ids were in use: from the hand-out, which plugins see, to the last batch.

The tables have a sample of the uses (`state/pid_uses.py`), brokers have all of them. Neither tells which producers are
open. An id counts as kept (still in use) if its time in use is at least the time since its last batch, and no deploy
replaced it (`lifecycle/generations.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from lifecycle.generations import replaced
from lifecycle.occupancy import Int64s

PAUSE_MS = 60_000
"""A client without a batch for longer than this has paused. Ids in use at its last batch count as kept."""
MIN_BEATS = 8
MAX_SLIP_MS = 8.0
"""Maximum drift of a schedule per period. Restarts of a process drift more."""
BROKERS_PRECISION_S = 1.0
"""How exactly brokers know when an id was used."""


@dataclass(frozen=True)
class Life:
    """The time that a producer id was in use.

    Attributes:
        host: Address of the client that got the id.
        from_ms: When the id was handed out, in ms since the epoch.
        to_ms: Time of the last batch; `from_ms` without a batch.
        next_ms: When the address got its next id; 0 if never.
    """

    host: str
    from_ms: int
    to_ms: int
    next_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Lives:
    """Statistics over the lives of a client's producer ids.

    Attributes:
        counted: Number of ids with a known life.
        kept_share: Share of kept ids (still in use, or in use when the client paused).
        kept_seconds: Median time in use of the kept ids.
        silent_seconds: Time since the client last wrote.
        quiet_seconds: Time from the last hand-out to the last batch.
        used_seconds: Median time in use of the ended ids.
        used_spread: Interquartile range of the ended ids' times in use, divided by their median.
        down_seconds: Median time from the end of an id to the next id of its address; 0 if they overlap.
        down_spread: Interquartile range of these times, divided by their median.
        overlap_share: Share of the ids whose address got another one while they were in use.
        replaced_share: Share of the ended ids that a deploy replaced.
        on_schedule: Whether ids were handed out at a period of whole seconds, without drift.
        precision_seconds: Shorter times in use look like one batch.
    """

    kept_share: float
    counted: int = 100
    kept_seconds: float = 0.0
    silent_seconds: float = 0.0
    quiet_seconds: float = 0.0
    used_seconds: float = 0.0
    used_spread: float = 0.0
    down_seconds: float = 0.0
    down_spread: float = 0.0
    overlap_share: float = 0.0
    replaced_share: float = 0.0
    on_schedule: bool = False
    precision_seconds: float = BROKERS_PRECISION_S


def lives_of(
    lives: Sequence[Life],
    at_ms: int,
    *,
    precision_ms: int = round(1000 * BROKERS_PRECISION_S),
    in_groups: bool = True,
    slack_share: float = 0.0,
    slack_ms: int = 0,
) -> Lives | None:
    """Return statistics over one client's ids; None if all ids are too young.

    Args:
        lives: The ids.
        at_ms: Uses up to this time are known.
        precision_ms: A use shows up to this much later. Ids younger than twice this time are not classified.
        in_groups: Whether ids came in groups. A sample of ids that did not may look like groups.
        slack_share: The last use is noted early by at most this share of the time in use...
        slack_ms: ...and by at most this time.
    """
    young_ms = at_ms - 2 * precision_ms
    known = sorted((each for each in lives if each.from_ms <= young_ms), key=lambda each: each.from_ms)
    if not known:
        return None
    begins = np.array([each.from_ms for each in known], np.int64)
    ends = np.maximum(begins, np.array([each.to_ms for each in known], np.int64))
    last_ms = int(ends.max())
    until_ms = min(at_ms, last_ms + PAUSE_MS)
    slack = np.minimum((slack_share * (ends - begins)).astype(np.int64), slack_ms)
    was_replaced = replaced(begins, ends, until_ms, slack) & in_groups
    kept = (ends - begins >= until_ms - ends) & ~was_replaced
    used, down_ms = (ends - begins)[~kept], _down_ms(known)
    return Lives(
        counted=len(known),
        kept_share=float(kept.mean()),
        kept_seconds=float(np.median((ends - begins)[kept])) / 1000 if kept.any() else 0.0,
        silent_seconds=max(0.0, (at_ms - last_ms) / 1000),
        quiet_seconds=max(0.0, (last_ms - max(each.from_ms for each in lives)) / 1000),
        used_seconds=float(np.median(used)) / 1000 if len(used) else 0.0,
        used_spread=_spread(used),
        down_seconds=float(np.median(down_ms)) / 1000 if len(down_ms) and len(used) else 0.0,
        down_spread=_spread(down_ms) if len(used) else 0.0,
        overlap_share=float(np.mean([0 < each.next_ms < each.to_ms for each in known])),
        replaced_share=float(was_replaced[~kept].mean()) if len(used) else 0.0,
        on_schedule=len(used) > 0 and _is_scheduled(known),
        precision_seconds=precision_ms / 1000,
    )


def _by_host(lives: Iterable[Life]) -> list[list[Life]]:
    ordered = sorted(lives, key=lambda each: each.host)
    return [list(group) for _, group in groupby(ordered, key=lambda each: each.host)]


def _is_scheduled(lives: Sequence[Life]) -> bool:
    """Return whether each host with enough ids keeps a schedule, and these hosts have most of the ids."""
    enough = [own for own in _by_host(lives) if len(own) >= MIN_BEATS]
    return 2 * sum(map(len, enough)) >= len(lives) and all(map(_keep_step, enough))


def _keep_step(lives: Sequence[Life]) -> bool:
    """Return whether hand-outs follow a fixed schedule.

    If each hand-out waits for the previous one, hand-outs drift. `lives` may lack some hand-outs.
    """
    gaps_ms = [each.next_ms - each.from_ms for each in lives if each.next_ms]
    if len(gaps_ms) < MIN_BEATS - 1:
        return False
    times = np.array([each.from_ms for each in lives], np.float64)
    period_ms = round(float(np.median(gaps_ms)) / 1000) * 1000
    if not period_ms:
        return False
    late_ms = (times - times[0] + period_ms / 2) % period_ms - period_ms / 2
    third = len(times) // 3
    # A busy machine is sometimes late, but never early. So compare the smallest delay of the first third with that of
    # the last third.
    slip_ms = abs(float(late_ms[-third:].min() - late_ms[:third].min()))
    beats = float(times[-1] - times[0]) / period_ms
    spread_ms = float(np.percentile(late_ms, 90) - late_ms.min())
    return slip_ms <= MAX_SLIP_MS * beats * 2 / 3 and spread_ms <= period_ms / 4


def _down_ms(lives: Sequence[Life]) -> Int64s:
    return np.array([max(0, each.next_ms - each.to_ms) for each in lives if each.next_ms], np.int64)


def _spread(values: Int64s) -> float:
    if not len(values):
        return 0.0
    low, median, high = np.percentile(values, (25, 50, 75))
    return float(high - low) / max(1.0, float(median))

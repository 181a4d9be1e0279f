"""How fast entries come to a broker: today's rate, and beside it that of a flood that has only just begun.

Today's rate is the best of three sources: when the producer ids were handed out, an earlier census, or how long those
held now are idle. It is of an hour at least, so a flood of two minutes hardly shows in it; on the night that it
matters the rate is young. What came lately tells that one, unless chance could have made it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lifecycle.occupancy import NOT_KNOWN_MS, Census, Int64s

RATE_HOURS = 24.0
"""A rate is of the last so many hours: today's."""
LEAST_AGE_MS = 600_000
"""An earlier census must be so old: brokers look for expired producers that often, unless they are told otherwise."""
LATELY_MS = 60_000
"""What came lately is counted over so long at least: a deployment opens its producers within moments."""
LEAST_PIDS = 20
"""Fewer producer ids tell no rate of lately."""
HAND_OUTS, SWEEP, IDLE = "hand-out times", "earlier sweep", "idle times"

_HOUR_MS = 3_600_000
_BOUND_SHARE = 0.9
# Standard errors: many moments are looked at, and chance alone makes one of them more than two too high.
_ERRORS = 3.0


@dataclass(frozen=True)
class Rate:
    """How fast entries come to a broker.

    Attributes:
        pids_per_hour: New entries in an hour.
        source: What it was told by: `hand-out times`, `earlier sweep` or `idle times`.
        counted: Producer ids that it was counted from.
        span_ms: Time that they took to come.
    """

    pids_per_hour: float
    source: str
    counted: int = 0
    span_ms: float = 0.0

    @property
    def error_share(self) -> float | None:
        """Standard error of it, as a share; None if it was counted from nothing."""
        return 1 / math.sqrt(self.counted) if self.counted else None


@dataclass(frozen=True)
class Rates:
    """What is known of how fast entries come.

    Attributes:
        today: Of the last day, or of as long as is known; an hour at least, unless producers expire sooner.
        lately: Since a moment of the last hour; None if that is no faster than today's by more than chance.
    """

    today: Rate
    lately: Rate | None = None

    @property
    def highest_first(self) -> tuple[Rate, ...]:
        """Both, the one to plan by first."""
        return (self.today,) if self.lately is None else (self.lately, self.today)


@dataclass(frozen=True)
class EarlierCensus:
    """What a broker held some time ago.

    Attributes:
        age_ms: How long ago.
        held_pids: Entries that it held then.
        open_transactions: Of these, with an open transaction.
        idle_hours: Of all, by whole hours since their last batch then.
    """

    age_ms: int
    held_pids: int
    open_transactions: int
    idle_hours: tuple[int, ...]


def longest_pause_ms(expiration_ms: int) -> float:
    """How long a producer may be silent and still be taken for one in use, where nobody knows its age."""
    return min(_HOUR_MS, expiration_ms / 2)


def rates_of(census: Census, broker_id: int, earlier: Sequence[EarlierCensus] = ()) -> Rates:
    """Estimate how many entries come to a broker in an hour.

    Args:
        census: Of now.
        broker_id: Of the broker.
        earlier: What it held before, in any order; those too young or too old are passed over.
    """
    expiration_ms, held = census.expirations_ms[broker_id], census.held(broker_id)
    hand_outs = _HandOuts.of(census, broker_id)
    if held and hand_outs.entries.sum() >= _BOUND_SHARE * held:
        today = hand_outs.rate(expiration_ms)
        return Rates(today, hand_outs.lately(expiration_ms, today))
    usable = [each for each in earlier if LEAST_AGE_MS <= each.age_ms <= _longest_age_ms(expiration_ms)]
    if usable:
        today = _by_census(held, max(usable, key=lambda each: each.age_ms), expiration_ms)
    else:
        today = _by_idle_times(census, broker_id, expiration_ms)
    return Rates(today, _growth(held, earlier, today))


# By hand-out times


@dataclass(frozen=True)
class _HandOuts:
    """Producer ids that a broker holds and whose hand-out is known, the youngest first.

    Attributes:
        ages_ms: Since they were handed out.
        entries: That the broker holds of each.
    """

    ages_ms: Int64s
    entries: Int64s

    @classmethod
    def of(cls, census: Census, broker_id: int) -> _HandOuts:
        owners = census.owners
        rows = [owners.rows(replica.producer_ids) for replica in census.of_broker(broker_id)]
        entries = np.bincount(np.concatenate([np.empty(0, np.intp), *rows]), minlength=len(owners.producer_ids))
        known = np.flatnonzero((entries > 0) & (owners.handed_out_ms != NOT_KNOWN_MS))
        handed_out = owners.handed_out_ms[known]
        # A sweep takes its time, and finds what came meanwhile.
        now_ms = max(census.taken_at_ms, int(handed_out.max(initial=0)))
        order = np.argsort(-handed_out)
        return cls(now_ms - handed_out[order], entries[known][order])

    def rate(self, expiration_ms: int) -> Rate:
        # Those that were handed out within the expiration are all still there.
        span_ms = min(RATE_HOURS * _HOUR_MS, expiration_ms, max(_HOUR_MS, int(self.ages_ms[-1])))
        counted = int(np.searchsorted(self.ages_ms, span_ms, side="right"))
        return Rate(float(self.entries[:counted].sum()) * _HOUR_MS / span_ms, HAND_OUTS, counted, span_ms)

    def lately(self, expiration_ms: int, today: Rate) -> Rate | None:
        """The time since a moment of the last hour in which most came for sure, if it is more than today."""
        known = int(np.searchsorted(self.ages_ms, min(_HOUR_MS, expiration_ms), side="right"))
        if known < LEAST_PIDS:
            return None
        counted = np.arange(1, known + 1)
        spans_ms = np.maximum(self.ages_ms[:known], LATELY_MS)
        come = np.concatenate([[0], np.cumsum(self.entries[:known])])
        # What opened its producers at once and is done must not pass for a flood: the later half alone has to tell so.
        later = come[np.searchsorted(self.ages_ms[:known], spans_ms / 2, side="right")]
        rates = np.minimum(come[1:], 2 * later) / spans_ms
        surely = np.where(counted >= LEAST_PIDS, rates * (1 - _ERRORS / np.sqrt(counted)), 0.0)
        best = int(surely.argmax())
        if surely[best] * _HOUR_MS <= today.pids_per_hour:
            return None
        return Rate(float(rates[best]) * _HOUR_MS, HAND_OUTS, best + 1, float(spans_ms[best]))


# Without them


def _longest_age_ms(expiration_ms: int) -> float:
    # Older ones have lost those that were in use then, and may have come back: nobody can tell how many.
    return min(RATE_HOURS * _HOUR_MS, expiration_ms - _HOUR_MS)


def _by_census(held_now: int, earlier: EarlierCensus, expiration_ms: int) -> Rate:
    gone = 0.0
    for hours, entries in enumerate(earlier.idle_hours):
        # Of the entries of an hour, those idle long enough to be expired by now.
        begin_ms = hours * _HOUR_MS + earlier.age_ms - expiration_ms
        gone += entries * min(1.0, max(0.0, begin_ms / _HOUR_MS + 1.0))
    gone = min(gone, earlier.held_pids - earlier.open_transactions)
    come = max(0.0, held_now - earlier.held_pids + gone)
    return Rate(come * _HOUR_MS / earlier.age_ms, SWEEP, round(come), earlier.age_ms)


def _growth(held_now: int, earlier: Sequence[EarlierCensus], today: Rate) -> Rate | None:
    """What a broker holds more than in a sweep of the last hour; as much again may have come as expired."""
    found = [
        Rate(grown * _HOUR_MS / each.age_ms, SWEEP, grown, each.age_ms)
        for each in earlier
        if LATELY_MS <= each.age_ms <= _HOUR_MS and (grown := held_now - each.held_pids) >= LEAST_PIDS
    ]
    best = max(found, key=_surely, default=None)
    return best if best is not None and _surely(best) > today.pids_per_hour else None


def _surely(rate: Rate) -> float:
    return rate.pids_per_hour * (1 - _ERRORS / math.sqrt(rate.counted))


def _by_idle_times(census: Census, broker_id: int, expiration_ms: int) -> Rate:
    """Where nothing changes, as many begin as fall silent; those silent for a moment may only pause."""
    replicas = census.of_broker(broker_id)
    idle_ms = np.concatenate([census.taken_at_ms - each.last_timestamps_ms for each in replicas] or [np.empty(0, int)])
    if not len(idle_ms):
        return Rate(0.0, IDLE)
    pause_ms = longest_pause_ms(expiration_ms)
    span_ms = min(RATE_HOURS * _HOUR_MS, expiration_ms, int(idle_ms.max()))
    if span_ms <= pause_ms:
        # Too young to tell: as if all had begun within an hour, or within their expiration.
        within_ms = min(_HOUR_MS, expiration_ms)
        return Rate(float(len(idle_ms)) * _HOUR_MS / within_ms, IDLE, len(idle_ms), within_ms)
    silent = int(((idle_ms >= pause_ms) & (idle_ms <= span_ms)).sum())
    return Rate(silent * _HOUR_MS / (span_ms - pause_ms), IDLE, silent, span_ms - pause_ms)

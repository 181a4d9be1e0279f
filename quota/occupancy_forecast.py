"""What a broker will hold: what it holds now, less what expires, and what comes at the rate of today.

The expiry of what is there is exact, but for the ten minutes between a broker's checks. What comes is a rate, from the
best of three sources: when the producer ids were handed out, an earlier census, or how long those held now are idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quota.expiry import CHECK_INTERVAL_MS
from quota.occupancy import NOT_KNOWN_MS, Census, Int64s

RATE_HOURS = 24.0
"""A rate is of the last so many hours: today's."""
LEAST_AGE_MS = 600_000
"""An earlier census must be so old: brokers look for expired producers that often."""

_HOUR_MS = 3_600_000
_BOUND_SHARE = 0.9


@dataclass(frozen=True)
class Rate:
    """How fast entries come to a broker.

    Attributes:
        pids_per_hour: New entries in an hour.
        source: What it was told by: `hand-out times`, `earlier sweep` or `idle times`.
    """

    pids_per_hour: float
    source: str


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


def rate_of(census: Census, broker_id: int, earlier: Sequence[EarlierCensus] = ()) -> Rate:
    """Estimate how many entries come to a broker in an hour.

    Args:
        census: Of now.
        broker_id: Of the broker.
        earlier: What it held before, in any order; those too young or too old are passed over.
    """
    expiration_ms = census.expirations_ms[broker_id]
    last_ms, handed_out_ms = _times(census, broker_id)
    bound = handed_out_ms != NOT_KNOWN_MS
    if len(last_ms) and bound.mean() >= _BOUND_SHARE:
        return Rate(_by_hand_out(census.taken_at_ms, handed_out_ms[bound], expiration_ms), "hand-out times")
    usable = [each for each in earlier if LEAST_AGE_MS <= each.age_ms <= _longest_age_ms(expiration_ms)]
    if usable:
        oldest = max(usable, key=lambda each: each.age_ms)
        return Rate(_by_census(len(last_ms), oldest, expiration_ms), "earlier sweep")
    return Rate(_by_idle_times(census.taken_at_ms, last_ms, expiration_ms), "idle times")


def _times(census: Census, broker_id: int) -> tuple[Int64s, Int64s]:
    replicas = census.of_broker(broker_id)
    if not replicas:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ids = np.concatenate([replica.producer_ids for replica in replicas])
    last_ms = np.concatenate([replica.last_timestamps_ms for replica in replicas])
    return last_ms, census.owners.handed_out_ms[census.owners.rows(ids)]


def _by_hand_out(now_ms: int, handed_out_ms: Int64s, expiration_ms: int) -> float:
    # Those that were handed out within the expiration are all still there.
    known_ms = now_ms - int(handed_out_ms.min())
    span_ms = min(RATE_HOURS * _HOUR_MS, expiration_ms, max(_HOUR_MS, known_ms))
    return float((now_ms - handed_out_ms <= span_ms).sum()) * _HOUR_MS / span_ms


def _longest_age_ms(expiration_ms: int) -> float:
    # Older ones have lost those that were in use then, and may have come back: nobody can tell how many.
    return min(RATE_HOURS * _HOUR_MS, expiration_ms - _HOUR_MS)


def _by_census(held_now: int, earlier: EarlierCensus, expiration_ms: int) -> float:
    gone = 0.0
    for hours, entries in enumerate(earlier.idle_hours):
        # Of the entries of an hour, those idle long enough to be expired by now.
        begin_ms = hours * _HOUR_MS + earlier.age_ms - expiration_ms
        gone += entries * min(1.0, max(0.0, begin_ms / _HOUR_MS + 1.0))
    gone = min(gone, earlier.held_pids - earlier.open_transactions)
    return max(0.0, held_now - earlier.held_pids + gone) * _HOUR_MS / earlier.age_ms


def _by_idle_times(now_ms: int, last_ms: Int64s, expiration_ms: int) -> float:
    """Where nothing changes, as many begin in an hour as fall silent; those of the last hour may only pause."""
    if not len(last_ms):
        return 0.0
    idle_ms = now_ms - last_ms
    span_ms = min(RATE_HOURS * _HOUR_MS, expiration_ms, int(idle_ms.max()))
    if span_ms <= _HOUR_MS:
        # Too young to tell: as if all had begun in the last hour.
        return float(len(last_ms)) * _HOUR_MS / min(_HOUR_MS, expiration_ms)
    silent = (idle_ms >= _HOUR_MS) & (idle_ms <= span_ms)
    return float(silent.sum()) * _HOUR_MS / (span_ms - _HOUR_MS)


class Outlook:
    """What one broker will hold, by the time from now."""

    def __init__(self, census: Census, broker_id: int, rate: Rate) -> None:
        """Begin with what a census found.

        Args:
            census: Of now.
            broker_id: Of the broker.
            rate: At which entries come.
        """
        replicas = census.of_broker(broker_id)
        times = [replica.last_timestamps_ms[~replica.in_transaction] for replica in replicas]
        self._now_ms = census.taken_at_ms
        self._expiration_ms = census.expirations_ms[broker_id]
        self._rate = rate
        self._last_ms: Int64s = np.sort(np.concatenate(times)) if times else np.empty(0, np.int64)
        self._open = census.held(broker_id) - len(self._last_ms)
        self._active = self._later_than(self._now_ms - _HOUR_MS)
        # What was active in the last hour and did not begin in it goes on: it will not expire.
        self._steady = max(0.0, self._active - rate.pids_per_hour)

    def held_in(self, ms: float) -> int:
        """Entries held after a time without a surprise."""
        return round(self._held_in(ms))

    def reaches(self, limit: int) -> float | None:
        """Milliseconds until so many entries are held, exact to a check of the broker's; None if never at this rate."""
        # After an expiration and an hour the count does not change any more.
        steps = np.arange(0, self._expiration_ms + 2 * _HOUR_MS, CHECK_INTERVAL_MS)
        return next((float(ms) for ms in steps.tolist() if self._held_in(ms) >= limit), None)

    @property
    def settles_at(self) -> int:
        """Entries held when all that is there has expired or goes on: where this rate leads to."""
        return self.held_in(self._expiration_ms + 2 * _HOUR_MS)

    def _held_in(self, ms: float) -> float:
        left = self._later_than(self._now_ms + ms - self._expiration_ms)
        new = self._rate.pids_per_hour * min(ms, self._expiration_ms) / _HOUR_MS
        return self._open + left + min(self._steady, max(0, self._active - left)) + new

    def _later_than(self, time_ms: float) -> int:
        return len(self._last_ms) - int(np.searchsorted(self._last_ms, time_ms, side="right"))

"""Forecasts a broker's number of entries: current entries, minus those that expire, plus new entries at a rate.

An entry is removed half a check interval after it expires, on average.
"""

from collections.abc import Iterator

import numpy as np

from lifecycle.generations import replaced
from lifecycle.occupancy import NOT_KNOWN_MS, Bools, Census, Int64s, ReplicaProducers
from lifecycle.occupancy_rate import HAND_OUTS, Rate, longest_pause_ms

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_SILENCE_MS = _HOUR_MS // 2
"""An id that was in use for less than a day has ended if it had no batch for this long."""
_MANY_TIMES = 4
"""If more ids than this are in use per ended id, ids hardly end."""
_STEP_MS = 60_000
_MIN_STEPS = 100


class Outlook:
    """Forecast for one broker at a rate of new entries."""

    def __init__(self, census: Census, broker_id: int, rate: Rate) -> None:
        self._now_ms = census.taken_at_ms
        self._rate = rate
        expiration_ms, check_ms = census.expirations_ms[broker_id], census.check_interval_ms(broker_id)
        self._kept_ms = expiration_ms + check_ms / 2
        self._pause_ms = longest_pause_ms(expiration_ms)
        self.swing = rate.pids_per_hour * check_ms / _HOUR_MS
        """Number of entries by which the steady count rises and falls between expiration checks."""
        closed = [(each.last_timestamps_ms[~each.in_transaction], each) for each in census.of_broker(broker_id)]
        times = np.concatenate([times for times, _ in closed] or [np.empty(0, np.int64)])
        self._open = census.held(broker_id) - len(times)
        if rate.source == HAND_OUTS:
            begins = np.concatenate([self._begins_ms(census, each) for _, each in closed] or [np.empty(0, np.int64)])
            goes_on = self._in_use(begins, times, expiration_ms)
            self._last_ms: Int64s = np.sort(times[~goes_on])
            self._steady, self._active = float(goes_on.sum()), np.inf
            self._mean = self._mean_in_use(begins, times, goes_on, min(_DAY_MS, expiration_ms))
        else:
            # Recently active entries stay in use, unless they are new.
            self._last_ms = np.sort(times)
            self._active = float(self._later_than(self._now_ms - self._pause_ms))
            self._steady = max(0.0, self._active - rate.pids_per_hour * self._pause_ms / _HOUR_MS)
            self._mean = self._steady

    def held_in(self, ms: float) -> int:
        """Return the number of entries that the broker holds in `ms` milliseconds."""
        return round(self._held_in(ms))

    def reaches(self, limit: int) -> float | None:
        """Return the milliseconds until the broker holds `limit` entries; None if never."""
        return next((ms for ms in self._moments() if self._held_in(ms) >= limit), None)

    @property
    def settles_at(self) -> int:
        """Average number of entries in the steady state."""
        return round(self._held_in(self._horizon_ms) - self._steady + self._mean)

    @property
    def _horizon_ms(self) -> float:
        # After this time, the count is steady.
        return self._kept_ms + 2 * self._pause_ms

    def _moments(self) -> Iterator[float]:
        step_ms = min(_STEP_MS, self._horizon_ms / _MIN_STEPS)
        return (number * step_ms for number in range(round(self._horizon_ms / step_ms) + 1))

    def _begins_ms(self, census: Census, replica: ReplicaProducers) -> Int64s:
        ids = replica.producer_ids[~replica.in_transaction]
        return census.owners.handed_out_ms[census.owners.rows(ids)]

    def _in_use(self, begins_ms: Int64s, ends_ms: Int64s, expiration_ms: int) -> Bools:
        unknown = begins_ms == NOT_KNOWN_MS
        silent_ms = self._now_ms - ends_ms
        used_ms = np.where(unknown, self._pause_ms, ends_ms - begins_ms)
        # An id that was in use for a day may pause every night. Other ids without recent batches have ended.
        awake = (silent_ms <= min(_SILENCE_MS, self._pause_ms)) | unknown | (used_ms >= min(_DAY_MS, expiration_ms))
        # Ids of unknown age are older than the others.
        oldest_ms = int(begins_ms[~unknown].min(initial=self._now_ms)) - _DAY_MS
        generations_ms = np.where(unknown, oldest_ms, begins_ms)
        ended: Bools = (used_ms < silent_ms) | ~awake | replaced(generations_ms, ends_ms, self._now_ms)
        return ~ended

    def _mean_in_use(self, begins_ms: Int64s, ends_ms: Int64s, goes_on: Bools, span_ms: int) -> float:
        """Return the mean number of ids in use over `span_ms`, or the current number if ids hardly end."""
        if goes_on.sum() > _MANY_TIMES * (~goes_on).sum():
            return float(goes_on.sum())
        since_ms = self._now_ms - span_ms
        until_ms = np.where(goes_on, self._now_ms, ends_ms)
        return float(np.maximum(0, until_ms - np.maximum(begins_ms, since_ms)).sum()) / span_ms

    def _held_in(self, ms: float) -> float:
        left = self._later_than(self._now_ms + ms - self._kept_ms)
        new = self._rate.pids_per_hour * min(ms, self._kept_ms) / _HOUR_MS
        return self._open + left + min(self._steady, max(0.0, self._active - left)) + new

    def _later_than(self, time_ms: float) -> int:
        return len(self._last_ms) - int(np.searchsorted(self._last_ms, time_ms, side="right"))

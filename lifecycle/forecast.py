"""Forecasts what a broker will hold: current entries, less those that expire, plus new ones at a rate.

The expiry of current entries is exact, except for the check interval: an expired entry stays for half of it on average.
"""

from collections.abc import Iterator

import numpy as np

from lifecycle.generations import in_use
from lifecycle.occupancy import NOT_KNOWN_MS, Bools, Census, Int64s, ReplicaProducers
from lifecycle.occupancy_rate import HAND_OUTS, Rate, longest_pause_ms

_HOUR_MS = 3_600_000
_STEP_MS = 60_000
_MIN_STEPS = 100


class Outlook:
    """Forecast for one broker, by time from now."""

    def __init__(self, census: Census, broker_id: int, rate: Rate) -> None:
        """Start from a census."""
        self._now_ms = census.taken_at_ms
        self._rate = rate
        expiration_ms, check_ms = census.expirations_ms[broker_id], census.check_interval_ms(broker_id)
        self._kept_ms = expiration_ms + check_ms / 2
        self._pause_ms = longest_pause_ms(expiration_ms)
        self.swing = rate.pids_per_hour * check_ms / _HOUR_MS
        """Entries by which the settled count rises and falls between checks."""
        closed = [(each.last_timestamps_ms[~each.in_transaction], each) for each in census.of_broker(broker_id)]
        times = np.concatenate([times for times, _ in closed] or [np.empty(0, np.int64)])
        self._open = census.held(broker_id) - len(times)
        if rate.source == HAND_OUTS:
            goes_on = np.concatenate([self._in_use(census, each) for _, each in closed] or [np.empty(0, np.bool_)])
            self._last_ms: Int64s = np.sort(times[~goes_on])
            self._steady, self._active = float(goes_on.sum()), np.inf
        else:
            # Unknown which ones, but entries active lately that are not new stay in use.
            self._last_ms = np.sort(times)
            self._active = float(self._later_than(self._now_ms - self._pause_ms))
            self._steady = max(0.0, self._active - rate.pids_per_hour * self._pause_ms / _HOUR_MS)

    def held_in(self, ms: float) -> int:
        """Entries held after `ms` at this rate."""
        return round(self._held_in(ms))

    def reaches(self, limit: int) -> float | None:
        """Milliseconds until `limit` entries are held; None if never at this rate."""
        return next((ms for ms in self._moments() if self._held_in(ms) >= limit), None)

    @property
    def settles_at(self) -> int:
        """Entries held in the steady state of this rate."""
        return self.held_in(self._horizon_ms)

    @property
    def _horizon_ms(self) -> float:
        # By then the count is steady.
        return self._kept_ms + 2 * self._pause_ms

    def _moments(self) -> Iterator[float]:
        step_ms = min(_STEP_MS, self._horizon_ms / _MIN_STEPS)
        return (number * step_ms for number in range(round(self._horizon_ms / step_ms) + 1))

    def _in_use(self, census: Census, replica: ReplicaProducers) -> Bools:
        """Which entries stay in use (`lifecycle/generations.py`)."""
        last_ms = replica.last_timestamps_ms[~replica.in_transaction]
        handed_out = census.owners.handed_out_ms[census.owners.rows(replica.producer_ids[~replica.in_transaction])]
        begins_ms = np.where(handed_out == NOT_KNOWN_MS, last_ms - self._pause_ms, handed_out)
        return in_use(begins_ms.astype(np.int64), last_ms, self._now_ms)

    def _held_in(self, ms: float) -> float:
        left = self._later_than(self._now_ms + ms - self._kept_ms)
        new = self._rate.pids_per_hour * min(ms, self._kept_ms) / _HOUR_MS
        return self._open + left + min(self._steady, max(0.0, self._active - left)) + new

    def _later_than(self, time_ms: float) -> int:
        return len(self._last_ms) - int(np.searchsorted(self._last_ms, time_ms, side="right"))

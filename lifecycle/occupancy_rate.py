"""Estimates two rates of new entries on a broker: today's rate and the recent rate.

Today's rate comes from the best available source: hand-out times, an earlier census, or idle times. It is usually an
average over at least an hour, so it hides a flood of two minutes. The recent rate shows such a flood.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lifecycle.occupancy import NOT_KNOWN_MS, Census, Int64s

RATE_HOURS = 24.0
MIN_AGE_MS = 600_000
LATELY_MS = 45_000
"""Minimum span of the recent rate. A deploy opens its producers in less time."""
MIN_PIDS = 20
HAND_OUTS, SWEEP, IDLE = "hand-out times", "earlier sweep", "idle times"

_HOUR_MS = 3_600_000
_BOUND_SHARE = 0.9
_YESTERDAY_HOURS = (18.0, 25.5)
"""Start and end of "about this time yesterday", in hours ago."""
_PEAK_HOURS = 0.5
_ONGOING_SHARE = 0.25
"""Hand-outs go on if the newest id's age is at most this share of the oldest id's age."""
# Margin in standard errors. Among many spans, some are more than two standard errors too high by chance.
_ERRORS = 3.0


@dataclass(frozen=True)
class Rate:
    """Rate of new entries on a broker.

    Attributes:
        source: `hand-out times`, `earlier sweep` (an earlier census) or `idle times`.
        counted: Number of producer ids that the rate is based on.
        span_ms: Time in which these ids came.
    """

    pids_per_hour: float
    source: str
    counted: int = 0
    span_ms: float = 0.0

    @property
    def error_share(self) -> float | None:
        """Relative standard error; None if no id was counted."""
        return 1 / math.sqrt(self.counted) if self.counted else None


@dataclass(frozen=True)
class Rates:
    """Rates of new entries.

    Attributes:
        today: Rate over the last day or the known part of it.
        lately: Rate over a part of the last hour; None unless it is significantly higher than `today`.
    """

    today: Rate
    lately: Rate | None = None
    is_usual: bool = False
    """Whether ids came as fast as `lately` at about this time yesterday."""

    @property
    def likeliest_first(self) -> tuple[Rate, ...]:
        """The known rates. The recent rate comes first if it is unusual."""
        if self.lately is None:
            return (self.today,)
        return (self.today, self.lately) if self.is_usual else (self.lately, self.today)


@dataclass(frozen=True)
class EarlierCensus:
    """Counts of an earlier census of a broker.

    `idle_hours` counts entries by whole hours since their last batch.
    """

    age_ms: int
    held_pids: int
    open_transactions: int
    idle_hours: tuple[int, ...]


def longest_pause_ms(expiration_ms: int) -> float:
    """Return how long a producer of unknown age counts as in use after its last batch."""
    return min(_HOUR_MS, expiration_ms / 2)


def rates_of(census: Census, broker_id: int, earlier: Sequence[EarlierCensus] = ()) -> Rates:
    """Estimate the rates of new entries on a broker. Earlier censuses that are too recent or too old are skipped."""
    expiration_ms, held = census.expirations_ms[broker_id], census.held(broker_id)
    hand_outs = _HandOuts.count(census, broker_id)
    if held and hand_outs.entries.sum() >= _BOUND_SHARE * held:
        today = hand_outs.rate(expiration_ms)
        lately = hand_outs.lately(expiration_ms, today)
        return Rates(today, lately, lately is not None and hand_outs.is_usual(lately))
    usable = [each for each in earlier if MIN_AGE_MS <= each.age_ms <= _longest_age_ms(expiration_ms)]
    if usable:
        today = _by_census(held, max(usable, key=lambda each: each.age_ms), expiration_ms)
    else:
        today = _by_idle_times(census, broker_id, expiration_ms)
    return Rates(today, _growth(held, earlier, today))


# By hand-out times


@dataclass(frozen=True)
class _HandOuts:
    """Ids that a broker holds and that have a known hand-out time, youngest first."""

    ages_ms: Int64s
    entries: Int64s
    known_ms: float
    """Age of the oldest known id of the cluster, even if no broker holds the id any more."""

    @classmethod
    def count(cls, census: Census, broker_id: int) -> "_HandOuts":
        owners = census.owners
        rows = [owners.rows(replica.producer_ids) for replica in census.of_broker(broker_id)]
        entries = np.bincount(np.concatenate([np.empty(0, np.intp), *rows]), minlength=len(owners.producer_ids))
        known = np.flatnonzero((entries > 0) & (owners.handed_out_ms != NOT_KNOWN_MS))
        handed_out = owners.handed_out_ms[known]
        # Ids may be handed out during the census.
        now_ms = max(census.taken_at_ms, int(np.max(handed_out, initial=0)))
        order = np.argsort(-handed_out)
        since_ms = owners.known_since_ms
        return cls(
            now_ms - handed_out[order], entries[known][order], 0 if since_ms == NOT_KNOWN_MS else now_ms - since_ms
        )

    def rate(self, expiration_ms: int) -> Rate:
        # The broker holds all ids handed out within the expiration, so the oldest id shows when hand-outs began.
        oldest_ms = max(_HOUR_MS, int(self.ages_ms[-1]))
        # If ids older than a day are known, hand-outs began before the oldest id that the broker holds.
        goes_on = self.ages_ms[0] <= _ONGOING_SHARE * oldest_ms and self.known_ms < RATE_HOURS * _HOUR_MS
        span_ms = min(RATE_HOURS * _HOUR_MS, expiration_ms, oldest_ms if goes_on else math.inf)
        counted = int(np.searchsorted(self.ages_ms, span_ms, side="right"))
        return Rate(float(self.entries[:counted].sum()) * _HOUR_MS / span_ms, HAND_OUTS, counted, span_ms)

    def lately(self, expiration_ms: int, today: Rate) -> Rate | None:
        """Return the highest significant rate over a part of the last hour; None unless it exceeds `today`."""
        known = int(np.searchsorted(self.ages_ms, min(_HOUR_MS, expiration_ms), side="right"))
        if known < MIN_PIDS:
            return None
        counted = np.arange(1, known + 1)
        spans_ms = np.maximum(self.ages_ms[:known], LATELY_MS)
        come = np.concatenate([[0], np.cumsum(self.entries[:known])])
        # A burst that is over is no flood, so the later half of the span alone must show the rate.
        later = come[np.searchsorted(self.ages_ms[:known], spans_ms / 2, side="right")]
        rates = np.minimum(come[1:], 2 * later) / spans_ms
        surely = np.where(counted >= MIN_PIDS, rates * (1 - _ERRORS / np.sqrt(counted)), 0.0)
        best = int(np.argmax(surely))
        if surely[best] * _HOUR_MS <= today.pids_per_hour:
            return None
        # The best span is best partly by chance. A longer span with about the same rate is more exact.
        alike = (counted >= MIN_PIDS) & (rates >= rates[best] * (1 - 1 / math.sqrt(best + 1)))
        best = int(np.flatnonzero(alike)[-1])
        return Rate(float(rates[best]) * _HOUR_MS, HAND_OUTS, best + 1, float(spans_ms[best]))

    def is_usual(self, lately: Rate) -> bool:
        """Return whether ids came about as fast as `lately`, or faster, in some half hour from 18 to 25 hours ago."""
        bins = np.arange(*_YESTERDAY_HOURS, _PEAK_HOURS) * _HOUR_MS
        found, _ = np.histogram(self.ages_ms, bins, weights=self.entries)
        return _surely(lately) <= float(np.max(found, initial=0.0)) / _PEAK_HOURS


# Without hand-out times


def _longest_age_ms(expiration_ms: int) -> float:
    # If a census is older, an unknown number of entries has expired and come back since.
    return min(RATE_HOURS * _HOUR_MS, expiration_ms - _HOUR_MS)


def _by_census(held_now: int, earlier: EarlierCensus, expiration_ms: int) -> Rate:
    gone = 0.0
    for hours, entries in enumerate(earlier.idle_hours):
        # The share of the entries in this hour that have expired by now.
        begin_ms = hours * _HOUR_MS + earlier.age_ms - expiration_ms
        gone += entries * min(1.0, max(0.0, begin_ms / _HOUR_MS + 1.0))
    gone = min(gone, earlier.held_pids - earlier.open_transactions)
    come = max(0.0, held_now - earlier.held_pids + gone)
    return Rate(come * _HOUR_MS / earlier.age_ms, SWEEP, round(come), earlier.age_ms)


def _growth(held_now: int, earlier: Sequence[EarlierCensus], today: Rate) -> Rate | None:
    """Return the growth since a census of the last hour. Entries may have expired, so the true rate may be higher."""
    found = [
        Rate(grown * _HOUR_MS / each.age_ms, SWEEP, grown, each.age_ms)
        for each in earlier
        if LATELY_MS <= each.age_ms <= _HOUR_MS and (grown := held_now - each.held_pids) >= MIN_PIDS
    ]
    best = max(found, key=_surely, default=None)
    return best if best is not None and _surely(best) > today.pids_per_hour else None


def _surely(rate: Rate) -> float:
    return rate.pids_per_hour * (1 - _ERRORS / math.sqrt(rate.counted))


def _by_idle_times(census: Census, broker_id: int, expiration_ms: int) -> Rate:
    """Return the rate at which producers become idle. In a steady state, new producers come at the same rate."""
    replicas = census.of_broker(broker_id)
    idle_ms = np.concatenate([census.taken_at_ms - each.last_timestamps_ms for each in replicas] or [np.empty(0, int)])
    if not len(idle_ms):
        return Rate(0.0, IDLE)
    pause_ms = longest_pause_ms(expiration_ms)
    span_ms = min(RATE_HOURS * _HOUR_MS, expiration_ms, int(idle_ms.max()))
    if span_ms <= pause_ms:
        # All entries are too young to show a rate, so assume that all started within an hour, or within the expiration.
        within_ms = min(_HOUR_MS, expiration_ms)
        return Rate(float(len(idle_ms)) * _HOUR_MS / within_ms, IDLE, len(idle_ms), within_ms)
    silent = int(((idle_ms >= pause_ms) & (idle_ms <= span_ms)).sum())
    return Rate(silent * _HOUR_MS / (span_ms - pause_ms), IDLE, silent, span_ms - pause_ms)

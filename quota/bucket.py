"""The token bucket of KIP-599, in integers.

Admitted PIDs take tokens as in Kafka's strict mode: only from a bucket that is not exhausted. Refused PIDs take tokens
as in its permissive mode, from an exhausted bucket. Unlike Kafka's debt, theirs has a limit.

Kafka's `TokenBucket` adds floating-point numbers, so rounding depends on the number of refills. This bucket counts
units. A token has a whole number of units, and a bucket gains a whole number of units per millisecond. So the number of
refills does not matter.
"""

from dataclasses import dataclass
from functools import lru_cache

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from quota.timeline import Timeline

_UNITS_PER_PID_RATE = 1_000_000
"""Resolution of quotas: a millionth of a PID per window."""


@dataclass(frozen=True)
class BucketTerms:
    """A quota in units of the bucket.

    Attributes:
        refill_per_ms: Units gained per millisecond.
        units_per_token: Units that one PID takes.
        burst_units: Units in a full bucket.
        debt_units: Units that refused PIDs may owe.
        least_units: Units in the emptiest bucket. A debt of less than a token is exceeded by the last admitted PID.
    """

    refill_per_ms: int
    units_per_token: int
    burst_units: int
    debt_units: int
    least_units: int


@lru_cache(maxsize=4096)
def bucket_terms(rate: float, burst: float | None, config: QuotaConfig) -> BucketTerms:
    """Return the terms of a rate in PIDs per window and a burst in PIDs.

    If the burst is None, it is the rate times `config.burst_windows`.
    """
    refill_per_ms, units_per_token = max(1, round(rate * _UNITS_PER_PID_RATE)), config.window_ms * _UNITS_PER_PID_RATE
    if burst is None:
        burst_units = round(refill_per_ms * config.window_ms * config.burst_windows)
    else:
        burst_units = round(burst * _UNITS_PER_PID_RATE) * config.window_ms
    debt_units = refill_per_ms * config.max_throttle_ms
    return BucketTerms(refill_per_ms, units_per_token, burst_units, debt_units, -max(debt_units, units_per_token))


class TokenBucket:
    """The tokens of one principal. As in Kafka, a bucket below zero is exhausted. Without a quota, it never is.

    A bucket is full until the first PID takes a token. Methods that take a tick answer for that tick, which must not be
    before the last one in which a token was taken.

    Examples:
        >>> bucket = TokenBucket(QuotaConfig(), Timeline(900_000), Limit(100.0, "user"))
        >>> while bucket.has_token(0):
        ...     bucket.take_token(0)
        >>> bucket.tokens(0), bucket.throttle_time_ms(0)
        (-1.0, 36000)
        >>> while bucket.has_credit(0):
        ...     bucket.take_token(0)
        >>> bucket.tokens(0), bucket.throttle_time_ms(0)
        (-100.0, 3600000)
    """

    def __init__(
        self,
        config: QuotaConfig,
        timeline: Timeline,
        limit: Limit = UNLIMITED,
        stored: tuple[str, int] | None = None,
    ) -> None:
        """Open the bucket that `to_parts` stored under the quota `limit`."""
        self._config, self._timeline = config, timeline
        self._terms = self._terms_of(limit)
        self._units: int | None = None
        self._tick = 0
        if stored is not None:
            self._units, self._tick = int(stored[0]), stored[1]

    def to_parts(self) -> tuple[str, int] | None:
        """Return the units, which may exceed 64 bits, and the tick of the last refill; None for an untouched bucket."""
        return None if self._units is None else (str(self._units), self._tick)

    def change_quota(self, limit: Limit, tick: int) -> bool:
        """Put a quota in force at a tick, after refilling the bucket under the previous quota.

        While there is no quota, the bucket keeps its tokens. The next quota refills the bucket for that time, too. If
        `limit.producer_ids_burst` is higher than the previous burst, the difference is added at once. A raised rate
        alone adds nothing, as in Kafka.

        Returns:
            Whether a raised burst added tokens.
        """
        before, self._terms = self._terms, self._terms_of(limit)
        if before is None or self._units is None:
            return False
        self._units, self._tick = self._units_at(before, tick), max(self._tick, tick)
        if self._terms is None or limit.producer_ids_burst is None:
            return False
        gained = max(0, self._terms.burst_units - before.burst_units)
        self._units += gained
        return gained > 0

    def reset(self) -> None:
        """Fill the bucket."""
        self._units = None

    @property
    def has_quota(self) -> bool:
        """Whether a quota is in force."""
        return self._terms is not None

    def has_token(self, tick: int) -> bool:
        """Return whether the next PID is admitted: the bucket is not exhausted (KIP-599, strict)."""
        return self._terms is None or self._units_at(self._terms, tick) >= 0

    def has_credit(self, tick: int) -> bool:
        """Return whether a refused PID may take a token: the debt stays within its limit (KIP-599, permissive)."""
        terms = self._terms
        return terms is not None and self._units_at(terms, tick) - terms.units_per_token >= -terms.debt_units

    def take_token(self, tick: int) -> None:
        """Refill the bucket up to a tick, and take a token. Without a quota, do nothing."""
        if self._terms is not None:
            self._units = self._units_at(self._terms, tick) - self._terms.units_per_token
            self._tick = max(self._tick, tick)

    def tokens(self, tick: int) -> float | None:
        """Return the tokens at a tick, which are negative if the bucket is exhausted; None without a quota."""
        return None if self._terms is None else self._units_at(self._terms, tick) / self._terms.units_per_token

    def burst(self) -> float | None:
        """Return the tokens of a full bucket; None without a quota."""
        return None if self._terms is None else self._terms.burst_units / self._terms.units_per_token

    def debt(self) -> float:
        """Return the number of tokens that refused PIDs may owe; 0 without a quota."""
        return 0.0 if self._terms is None else self._terms.debt_units / self._terms.units_per_token

    def throttle_time_ms(self, tick: int) -> int:
        """Return the milliseconds until a PID is admitted (`-tokens / quota * window`)."""
        if self._terms is None:
            return 0
        # Kafka rounds half up (ControllerMutationQuotaManager.throttleTimeMs).
        missing = max(0, -self._units_at(self._terms, tick))
        return (missing + self._terms.refill_per_ms // 2) // self._terms.refill_per_ms if missing else 0

    def recovers_ms(self, tick: int) -> int:
        """Return when the bucket is no longer exhausted, in ms since the epoch, but not before `tick` starts.

        While the bucket is exhausted, the result does not depend on `tick`.
        """
        return self._timeline.tick_start_ms(tick) + self.throttle_time_ms(tick)

    def full_ms(self) -> int:
        """Return when the bucket is full again, in ms since the epoch; 0 for an untouched bucket."""
        if self._units is None:
            return 0
        refilled_ms = self._timeline.tick_start_ms(self._tick)
        if self._terms is None:
            # Without a quota, the tokens are kept until the rate's samples have expired.
            return refilled_ms + self._config.window_num * self._config.window_ms
        missing = max(0, self._terms.burst_units - max(self._units, self._terms.least_units))
        return refilled_ms - -missing // self._terms.refill_per_ms

    def _terms_of(self, limit: Limit) -> BucketTerms | None:
        rate = limit.producer_ids_rate
        return None if rate is None else bucket_terms(rate, limit.producer_ids_burst, self._config)

    def _units_at(self, terms: BucketTerms, tick: int) -> int:
        """Return the content at a tick. A lowered burst reduces the content, and a lowered quota the debt."""
        if self._units is None:
            return terms.burst_units
        # The debt is reduced before units are added, so that the number of refills does not matter.
        units = max(self._units, terms.least_units)
        if tick > self._tick:
            elapsed_ms = self._timeline.tick_start_ms(tick) - self._timeline.tick_start_ms(self._tick)
            units += elapsed_ms * terms.refill_per_ms
        return min(units, terms.burst_units)

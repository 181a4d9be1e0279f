"""The token bucket of KIP-599, in integers.

Admitted PIDs take tokens as in Kafka's strict mode: only from a bucket that is not exhausted. Refused PIDs take tokens
as in its permissive mode, from an exhausted bucket. Unlike Kafka's debt, theirs has a limit.

Kafka's `TokenBucket` adds floating-point numbers, so rounding depends on the number of refills. This bucket counts
units. A token has a whole number of units, and a bucket gains a whole number of units per millisecond. So the number of
refills does not matter.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from quota.config import QuotaConfig
from quota.timeline import Timeline

_UNITS_PER_PID_RATE = 1_000_000
"""Resolution of quotas: a millionth of a PID per window."""

_PART_BITS = 62


@dataclass(frozen=True)
class BucketTerms:
    """A quota in units of the bucket.

    Attributes:
        refill_per_ms: Units gained per millisecond.
        units_per_token: Units that one PID takes.
        burst_units: Units in a full bucket.
        debt_units: Units that refused PIDs may owe.
    """

    refill_per_ms: int
    units_per_token: int
    burst_units: int
    debt_units: int

    @cached_property
    def least_units(self) -> int:
        """Units in the emptiest bucket. A debt of less than a token is exceeded by the last admitted PID."""
        return -max(self.debt_units, self.units_per_token)

    @classmethod
    def of(
        cls, producer_ids_rate: float, config: QuotaConfig, producer_ids_burst: float | None = None
    ) -> "BucketTerms":
        """Return the terms of a rate in PIDs per window and a burst in PIDs.

        If the burst is None, it is the rate times `config.burst_windows`.
        """
        return _terms(
            producer_ids_rate, producer_ids_burst, config.window_ms, config.burst_windows, config.max_throttle_ms
        )


@lru_cache(maxsize=4096)
def _terms(
    producer_ids_rate: float,
    producer_ids_burst: float | None,
    window_ms: int,
    burst_windows: float,
    max_throttle_ms: int,
) -> BucketTerms:
    refill_per_ms = max(1, round(producer_ids_rate * _UNITS_PER_PID_RATE))
    if producer_ids_burst is None:
        burst_units = round(refill_per_ms * window_ms * burst_windows)
    else:
        burst_units = round(producer_ids_burst * _UNITS_PER_PID_RATE) * window_ms
    return BucketTerms(refill_per_ms, window_ms * _UNITS_PER_PID_RATE, burst_units, refill_per_ms * max_throttle_ms)


@dataclass(slots=True)
class TokenBucket:
    """The tokens of one principal. As in Kafka, a bucket below zero is exhausted.

    `tick` is the tick of the last refill.

    Examples:
        >>> config = QuotaConfig()
        >>> terms = BucketTerms.of(100.0, config)
        >>> bucket = TokenBucket.full(terms, tick=0)
        >>> sum(bucket.take(terms) for _ in range(300))
        101
        >>> bucket.throttle_time_ms(terms)
        36000
        >>> sum(bucket.owe(terms) for _ in range(300))
        99
        >>> bucket.throttle_time_ms(terms)
        3600000
    """

    units: int
    tick: int

    @classmethod
    def full(cls, terms: BucketTerms, tick: int) -> "TokenBucket":
        """Return a full bucket."""
        return cls(terms.burst_units, tick)

    @classmethod
    def from_parts(cls, parts: tuple[int, int, int]) -> "TokenBucket":
        """Return the bucket that `to_parts` stored."""
        high, low, tick = parts
        return cls((high << _PART_BITS) + low, tick)

    def to_parts(self) -> tuple[int, int, int]:
        """Return the bucket as integers of at most 64 bits: high and low bits of `units`, and `tick`."""
        return self.units >> _PART_BITS, self.units & ((1 << _PART_BITS) - 1), self.tick

    def refill(self, terms: BucketTerms, tick: int, timeline: Timeline) -> None:
        """Add the units gained until a tick, up to the burst.

        A lowered burst reduces the content. A lowered quota reduces the debt.
        """
        units = self.units_at(terms, tick, timeline)
        self.tick = max(self.tick, tick)
        self.units = units

    def units_at(self, terms: BucketTerms, tick: int, timeline: Timeline) -> int:
        """Return the content at a tick without changing the bucket."""
        # The debt is reduced before units are added, so that the number of refills does not matter.
        units = max(self.units, terms.least_units)
        if tick > self.tick:
            elapsed_ms = timeline.tick_start_ms(tick) - timeline.tick_start_ms(self.tick)
            units += elapsed_ms * terms.refill_per_ms
        return min(units, terms.burst_units)

    def grow(self, old: BucketTerms, new: BucketTerms) -> bool:
        """Add the difference if the new burst is higher. Return whether it is."""
        gained = max(0, new.burst_units - old.burst_units)
        self.units += gained
        return gained > 0

    def take(self, terms: BucketTerms) -> bool:
        """Take a token if the bucket is not exhausted. Return whether a token was taken."""
        if self.units < 0:
            return False
        self.units -= terms.units_per_token
        return True

    def owe(self, terms: BucketTerms) -> bool:
        """Take a token from an exhausted bucket, unless the debt would exceed its limit.

        Returns:
            Whether a token was taken.
        """
        if self.units - terms.units_per_token < -terms.debt_units:
            return False
        self.units -= terms.units_per_token
        return True

    def tokens(self, terms: BucketTerms) -> float:
        """Return the content in tokens, which is negative if the bucket is exhausted."""
        return self.units / terms.units_per_token

    def throttle_time_ms(self, terms: BucketTerms) -> int:
        """Return the milliseconds until the bucket is no longer exhausted."""
        if self.units >= 0:
            return 0
        # Kafka rounds half up (ControllerMutationQuotaManager.throttleTimeMs).
        return (-self.units + terms.refill_per_ms // 2) // terms.refill_per_ms

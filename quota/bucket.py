"""The token bucket of KIP-599's strict quotas, in integers.

Kafka's `TokenBucket` adds floating-point numbers, so rounding depends on the number of refills. This bucket counts
units. A token has a whole number of units, and a bucket gains a whole number of units per millisecond. So the number of
refills does not matter.
"""

from dataclasses import dataclass
from functools import lru_cache

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
        units_per_token: Units that one admitted PID takes.
        burst_units: Units in a full bucket.
    """

    refill_per_ms: int
    units_per_token: int
    burst_units: int

    @classmethod
    def of(
        cls, producer_ids_rate: float, config: QuotaConfig, producer_ids_burst: float | None = None
    ) -> "BucketTerms":
        """Return the terms of a rate in PIDs per window and a burst in PIDs.

        If the burst is None, it is the rate times `config.burst_windows`.
        """
        return _terms(producer_ids_rate, config.window_ms, config.burst_windows, producer_ids_burst)


@lru_cache(maxsize=4096)
def _terms(
    producer_ids_rate: float, window_ms: int, burst_windows: float, producer_ids_burst: float | None
) -> BucketTerms:
    refill_per_ms, token = max(1, round(producer_ids_rate * _UNITS_PER_PID_RATE)), window_ms * _UNITS_PER_PID_RATE
    if producer_ids_burst is None:
        return BucketTerms(refill_per_ms, token, round(refill_per_ms * window_ms * burst_windows))
    return BucketTerms(refill_per_ms, token, round(producer_ids_burst * _UNITS_PER_PID_RATE) * window_ms)


@dataclass(slots=True)
class TokenBucket:
    """The tokens of one principal. As in Kafka, a bucket below zero is exhausted.

    `tick` is the tick of the last refill.

    Examples:
        >>> config = QuotaConfig()
        >>> terms = BucketTerms.of(100.0, config)
        >>> bucket = TokenBucket.full(terms, tick=0)
        >>> sum(bucket.take(terms) for _ in range(200))
        101
        >>> bucket.throttle_time_ms(terms)
        36000
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
        """Add the units gained until a tick, up to the burst. A lowered burst reduces the content."""
        units = self.units_at(terms, tick, timeline)
        self.tick = max(self.tick, tick)
        self.units = units

    def units_at(self, terms: BucketTerms, tick: int, timeline: Timeline) -> int:
        """Return the content at a tick without changing the bucket."""
        units = self.units
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

    def tokens(self, terms: BucketTerms) -> float:
        """Return the content in tokens, which is negative if the bucket is exhausted."""
        return self.units / terms.units_per_token

    def throttle_time_ms(self, terms: BucketTerms) -> int:
        """Return the milliseconds until the bucket is no longer exhausted."""
        if self.units >= 0:
            return 0
        # Kafka rounds half up (ControllerMutationQuotaManager.throttleTimeMs).
        return (-self.units + terms.refill_per_ms // 2) // terms.refill_per_ms

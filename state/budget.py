"""A principal's token bucket and quota."""

from quota.bucket import BucketTerms, TokenBucket
from quota.config import QuotaConfig
from quota.limits import Limit
from quota.timeline import Timeline


class Budget:
    """The tokens of one principal. A full bucket is created when a PID first takes a token under a quota."""

    def __init__(self, config: QuotaConfig, timeline: Timeline, parts: tuple[int, int, int] | None) -> None:
        """Open a budget. `parts` is a result of `TokenBucket.to_parts`; None without a bucket."""
        self._config = config
        self._timeline = timeline
        self._bucket = TokenBucket.from_parts(parts) if parts else None
        self._terms: BucketTerms | None = None

    def apply(self, limit: Limit, tick: int = 0) -> bool:
        """Put a quota in force at a tick, after refilling the bucket under the previous quota.

        While there is no quota, the bucket keeps its tokens. The next quota refills the bucket for that time, too. If
        `limit.producer_ids_burst` is higher than the previous burst, the difference is added at once. A raised rate
        alone adds nothing, as in Kafka.

        Returns:
            Whether a raised burst added tokens.
        """
        rate, before = limit.producer_ids_rate, self._terms
        self._terms = None if rate is None else BucketTerms.of(rate, self._config, limit.producer_ids_burst)
        if before is None or self._bucket is None:
            return False
        self._bucket.refill(before, tick, self._timeline)
        if self._terms is None or limit.producer_ids_burst is None:
            return False
        return self._bucket.grow(before, self._terms)

    def reset(self) -> None:
        """Drop the bucket. The next bucket is full."""
        self._bucket = None

    @property
    def is_limited(self) -> bool:
        """Whether a quota is in force."""
        return self._terms is not None

    def burst(self) -> float | None:
        """Return the tokens of a full bucket; None without a quota."""
        return None if self._terms is None else self._terms.burst_units / self._terms.units_per_token

    def parts(self) -> tuple[int, int, int] | None:
        """Return the bucket's stored form; None without a bucket."""
        return self._bucket.to_parts() if self._bucket else None

    def take(self, tick: int) -> bool:
        """Take a token. Return false if a quota is in force and the bucket is exhausted."""
        if self._terms is None:
            return True
        if self._bucket is None:
            self._bucket = TokenBucket.full(self._terms, tick)
        if tick != self._bucket.tick or not _is_within(self._bucket, self._terms):
            self._bucket.refill(self._terms, tick, self._timeline)
        return self._bucket.take(self._terms)

    def owe(self) -> bool:
        """Take a token for a PID that `take` has just refused. Return false if the debt has reached its limit."""
        return self._terms is not None and self._bucket is not None and self._bucket.owe(self._terms)

    def tokens(self, tick: int) -> float | None:
        """Return the tokens at a tick; None without a quota."""
        return self.tokens_and_throttle_ms(tick)[0]

    def tokens_and_throttle_ms(self, tick: int) -> tuple[float | None, int]:
        """Return the tokens at a tick (None without a quota), and the milliseconds until a PID is admitted."""
        if self._terms is None:
            return None, 0
        bucket = self._at(self._terms, tick)
        return bucket.tokens(self._terms), bucket.throttle_time_ms(self._terms)

    def debt(self) -> float:
        """Return the number of tokens that refused PIDs may owe; 0 without a quota."""
        return 0.0 if self._terms is None else self._terms.debt_units / self._terms.units_per_token

    def is_exhausted(self, tick: int) -> bool:
        """Return whether an unseen PID would get no token at a tick."""
        return self._terms is not None and self._at(self._terms, tick).units < 0

    def recovers_ms(self, tick: int) -> int:
        """Return when the bucket is no longer exhausted, in ms since the epoch, but not before `tick` starts.

        While the bucket is exhausted, the result does not depend on `tick`.
        """
        return self._timeline.tick_start_ms(tick) + self.tokens_and_throttle_ms(tick)[1]

    def full_ms(self) -> int:
        """Return when the bucket is full again, in ms since the epoch; 0 without a bucket."""
        if self._bucket is None:
            return 0
        asked_ms = self._timeline.tick_start_ms(self._bucket.tick)
        if self._terms is None:
            # Without a quota, the tokens are kept until the rate's samples have expired.
            return asked_ms + self._config.window_num * self._config.window_ms
        missing = max(0, self._terms.burst_units - max(self._bucket.units, self._terms.least_units))
        return asked_ms - -missing // self._terms.refill_per_ms

    def _at(self, terms: BucketTerms, tick: int) -> TokenBucket:
        bucket = self._bucket
        if bucket is None:
            return TokenBucket.full(terms, tick)
        if tick <= bucket.tick and _is_within(bucket, terms):
            return bucket
        return TokenBucket(bucket.units_at(terms, tick, self._timeline), tick)


def _is_within(bucket: TokenBucket, terms: BucketTerms) -> bool:
    """Return whether a bucket's content is possible under a quota. It may not be after the quota was lowered."""
    return terms.least_units <= bucket.units <= terms.burst_units

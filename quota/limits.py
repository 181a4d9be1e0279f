"""The quota that holds for a principal: user, then default, then none (KIP-936, public interfaces)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from quota.errors import InvalidQuotaError

QuotaSource = Literal["user", "default", "none"]

MAX_PRODUCER_IDS_RATE = 1e12
"""Exclusive upper bound of quotas; excludes infinity."""


@dataclass(frozen=True)
class Limit:
    """A quota in force.

    Attributes:
        producer_ids_rate: New PIDs per window, or None where nothing is limited.
        source: Which row of the precedence gave it.
        updated_at_ms: When the quota was last changed, in milliseconds since the epoch.
        producer_ids_burst: New PIDs at once, with a full bucket; None for `burst_windows` of the rate.

    Raises:
        InvalidQuotaError: If a number is not above 0 and below `MAX_PRODUCER_IDS_RATE`, or a burst has no rate.
    """

    producer_ids_rate: float | None
    source: QuotaSource
    updated_at_ms: int | None = None
    producer_ids_burst: float | None = None

    def __post_init__(self) -> None:
        if self.producer_ids_rate is not None:
            validate_rate(self.producer_ids_rate)
        validate_burst(self.producer_ids_burst, self.producer_ids_rate)

    def counts_as(self, other: "Limit") -> bool:
        """Return whether another limit has the same rate and burst, whoever set it."""
        mine = (self.producer_ids_rate, self.producer_ids_burst)
        return mine == (other.producer_ids_rate, other.producer_ids_burst)

    def allows_less_than(self, other: "Limit") -> bool:
        """Return whether another limit has a higher rate, or is unlimited."""
        mine, others = self.producer_ids_rate, other.producer_ids_rate
        return mine is not None and (others is None or others > mine)


@lru_cache(maxsize=4096, typed=True)
def shared_limit(
    producer_ids_rate: float | None,
    source: QuotaSource,
    updated_at_ms: int | None,
    producer_ids_burst: float | None = None,
) -> Limit:
    """Return the `Limit` of these fields, made once: ledgers ask for theirs in every batch."""
    return Limit(producer_ids_rate, source, updated_at_ms, producer_ids_burst)


def validate_rate(producer_ids_rate: float) -> float:
    """Return the rate if it can be a quota.

    Raises:
        InvalidQuotaError: If it is not a number above 0 and below `MAX_PRODUCER_IDS_RATE`.

    Examples:
        >>> validate_rate(100)
        100
    """
    if not (math.isfinite(producer_ids_rate) and 0 < producer_ids_rate < MAX_PRODUCER_IDS_RATE):
        msg = (
            f"producer_ids_rate={producer_ids_rate} is not a quota: "
            f"it must be a number above 0 and below {MAX_PRODUCER_IDS_RATE:g}; to lift a quota, delete it"
        )
        raise InvalidQuotaError(msg)
    return producer_ids_rate


def validate_burst(producer_ids_burst: float | None, producer_ids_rate: float | None) -> None:
    """Check that a burst can go with a rate; None goes with any.

    Raises:
        InvalidQuotaError: If it is not a number above 0 and below `MAX_PRODUCER_IDS_RATE`, or there is no rate.
    """
    if producer_ids_burst is None:
        return
    if producer_ids_rate is None:
        msg = f"producer_ids_burst={producer_ids_burst} has no producer_ids_rate: set both"
        raise InvalidQuotaError(msg)
    if not (math.isfinite(producer_ids_burst) and 0 < producer_ids_burst < MAX_PRODUCER_IDS_RATE):
        msg = (
            f"producer_ids_burst={producer_ids_burst} is no burst: it must be a number above 0 and below "
            f"{MAX_PRODUCER_IDS_RATE:g}; to go back to the default burst, delete producer_ids_burst"
        )
        raise InvalidQuotaError(msg)


UNLIMITED = Limit(None, "none")


def resolve(user: Limit | None, default: Limit | None) -> Limit:
    """Apply the precedence: the user's own quota, else the default, else none.

    Examples:
        >>> resolve(None, Limit(100.0, "default")).producer_ids_rate
        100.0
    """
    return user or default or UNLIMITED

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

    Raises:
        InvalidQuotaError: If the rate is not above 0 and below `MAX_PRODUCER_IDS_RATE`.
    """

    producer_ids_rate: float | None
    source: QuotaSource
    updated_at_ms: int | None = None

    def __post_init__(self) -> None:
        if self.producer_ids_rate is not None:
            validate_rate(self.producer_ids_rate)

    def allows_less_than(self, other: "Limit") -> bool:
        """Return whether another limit is higher, or unlimited."""
        mine, others = self.producer_ids_rate, other.producer_ids_rate
        return mine is not None and (others is None or others > mine)


UNLIMITED = Limit(None, "none")


@lru_cache(maxsize=4096, typed=True)
def shared_limit(producer_ids_rate: float | None, source: QuotaSource, updated_at_ms: int | None) -> Limit:
    """Return the `Limit` of these fields, made once: ledgers ask for theirs in every batch."""
    return Limit(producer_ids_rate, source, updated_at_ms)


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


def resolve(user: Limit | None, default: Limit | None) -> Limit:
    """Apply the precedence: the user's own quota, else the default, else none.

    Examples:
        >>> resolve(None, Limit(100.0, "default")).producer_ids_rate
        100.0
    """
    return user or default or UNLIMITED

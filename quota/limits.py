"""The quotas in force, and which one applies to a principal: its own, else the default, else none (KIP-936)."""

from typing import Literal

import msgspec

QuotaSource = Literal["user", "default", "none"]


class Limit(msgspec.Struct, frozen=True, array_like=True):
    """A quota in force for a principal. Its numbers come from an `Allowance`, which validates them.

    Attributes:
        producer_ids_rate: New PIDs per window; None without a quota.
        source: Whether the quota is the user's own, the default, or missing.
        updated_at_ms: When the quota was last changed, in milliseconds since the epoch.
        producer_ids_burst: New PIDs that a full bucket allows at once; None for the rate times `burst_windows`.
    """

    producer_ids_rate: float | None
    source: QuotaSource
    updated_at_ms: int | None = None
    producer_ids_burst: float | None = None

    def counts_as(self, other: "Limit") -> bool:
        """Return whether another limit has the same rate and burst."""
        mine = (self.producer_ids_rate, self.producer_ids_burst)
        return mine == (other.producer_ids_rate, other.producer_ids_burst)

    def allows_less_than(self, other: "Limit") -> bool:
        """Return whether this limit has a lower rate than another one. A limit without a rate is above all rates."""
        mine, others = self.producer_ids_rate, other.producer_ids_rate
        return mine is not None and (others is None or others > mine)


UNLIMITED = Limit(None, "none")


class Quotas(msgspec.Struct, frozen=True, array_like=True):
    """All quotas in force.

    Attributes:
        users: Quotas by bare user name.
        default: Quota of users without their own.
    """

    users: dict[str, Limit] = {}
    default: Limit = UNLIMITED

    def has_own(self, principal: str) -> bool:
        """Return whether a principal has a quota of its own."""
        return _name(principal) in self.users

    def limit(self, principal: str) -> Limit:
        """Return the quota in force for a principal: its own, else the default, else none.

        Examples:
            >>> Quotas({"alice": Limit(5.0, "user")}, Limit(20.0, "default")).limit("User:alice").producer_ids_rate
            5.0
        """
        return self.users.get(_name(principal), self.default)


def _name(principal: str) -> str:
    """Return a principal's name without its type, as quotas use it."""
    return principal.partition(":")[2] if ":" in principal else principal

"""The quotas in force, and the one that holds for a principal: user, then default, then none (KIP-936)."""

from typing import Literal

import msgspec

QuotaSource = Literal["user", "default", "none"]


class Limit(msgspec.Struct, frozen=True, array_like=True):
    """A quota in force for a principal. Its numbers come from an `Allowance`, which validates them.

    Attributes:
        producer_ids_rate: New PIDs per window, or None where nothing is limited.
        source: Which row of the precedence gave it.
        updated_at_ms: When the quota was last changed, in milliseconds since the epoch.
        producer_ids_burst: New PIDs at once, with a full bucket; None for `burst_windows` of the rate.
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
        """Return whether another limit has a higher rate, or is unlimited."""
        mine, others = self.producer_ids_rate, other.producer_ids_rate
        return mine is not None and (others is None or others > mine)


UNLIMITED = Limit(None, "none")


class Quotas(msgspec.Struct, frozen=True, array_like=True):
    """All quotas in force.

    Attributes:
        users: By bare name.
        default: Of users without one of their own.
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
    """Return a principal's name without its type, which quotas do not name either."""
    return principal.partition(":")[2] if ":" in principal else principal

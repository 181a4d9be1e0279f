"""The quotas in force. A principal has its own quota, the default, or no quota (KIP-936)."""

from typing import Literal

import msgspec

QuotaSource = Literal["user", "default", "none"]


class Limit(msgspec.Struct, frozen=True, array_like=True):
    """A principal's quota in force. `Allowance` has validated its numbers.

    Attributes:
        producer_ids_rate: New PIDs per window; None without a quota.
        source: `user` for the principal's own quota, `default` for the default, `none` without a quota.
        updated_at_ms: When the quota was last changed, in ms since the epoch.
        producer_ids_burst: New PIDs that a full bucket allows at once. None means the rate times `burst_windows`.
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
        """Return whether this rate is lower than another limit's rate. A limit without a rate counts as infinite."""
        mine, others = self.producer_ids_rate, other.producer_ids_rate
        return mine is not None and (others is None or others > mine)


UNLIMITED = Limit(None, "none")


class Quotas(msgspec.Struct, frozen=True, array_like=True):
    """All quotas in force.

    Attributes:
        users: Quotas by bare user name (`alice`).
        default: Quota of all other users.
    """

    users: dict[str, Limit] = {}
    default: Limit = UNLIMITED

    def has_own(self, principal: str) -> bool:
        """Return whether `users` has a quota for a principal."""
        return _name(principal) in self.users

    def find(self, principal: str) -> Limit:
        """Return a principal's quota in force.

        Examples:
            >>> Quotas({"alice": Limit(5.0, "user")}, Limit(20.0, "default")).find("User:alice").producer_ids_rate
            5.0
        """
        return self.users.get(_name(principal), self.default)


def _name(principal: str) -> str:
    return principal.partition(":")[2] if ":" in principal else principal

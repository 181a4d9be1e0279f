"""Decisions, leases and release orders.

A lease is logged before the brokers change. Each state of a lease has a record:

    applying ──▶ in_force ──▶ restoring ──▶ restored
        │            │             │
        └────────────┴─────────────┴──▶ relinquished   (someone else changed the value, so it stays)
        └──▶ failed                              (Kafka refused it: nothing changed)

All times are by the brokers' clock (`broker.enforcement.clock`), in milliseconds since the epoch.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

from broker.kafka.quota_entity import QuotaEntity
from quota.errors import InvalidPrincipalError
from quota.principals import NEVER_ENFORCED, UNKNOWN_PRINCIPAL, entity_name

Clock: TypeAlias = Callable[[], int]
LeverName = Literal["hold", "connection_creation_rate", "request_percentage"]
"""Names of the levers, strongest first."""
LeaseState = Literal["applying", "in_force", "restoring", "restored", "relinquished", "failed"]

LADDER: tuple[LeverName, ...] = get_args(LeverName)
ENTITY_TYPES: Mapping[LeverName, Collection[tuple[str, ...]]] = {
    "hold": [("user",)],
    "connection_creation_rate": [("ip",)],
    "request_percentage": [("user",), ("user", "client-id")],
}
"""Types of entities that each lever can act on."""
QUOTA_LEVERS: Collection[LeverName] = ("connection_creation_rate", "request_percentage")
"""Levers whose leases have a value."""

OPEN_STATES: tuple[LeaseState, ...] = ("applying", "in_force", "restoring")
MAX_LEASE_MS = 3_000_000
"""Maximum duration of a lease without a new decision. Brokers ignore a hold that ends more than an hour ahead."""
CLOCK_SLACK_MS = 5_000
"""Tolerated skew between hosts. A clock that is further behind a lease's `set_ms` was set back."""
MAX_AHEAD_MS = 300_000
NEVER_TOUCHED = ("ANONYMOUS", "*", UNKNOWN_PRINCIPAL)
"""Bare names that are never throttled: clients without a login (perhaps brokers), all users, and unknown principals."""
CANARY = "pid-quota-canary"
"""A user that does not exist; see `broker.enforcement.levers.canary`."""


@dataclass(frozen=True)
class ThrottleDecision:
    """A principal's newest row of `throttle_decisions`.

    If the row is a RELEASE, `throttled_until_ms` is `decided_at_ms`. `client_ids` and `addresses` count refused
    producer ids.
    """

    decision_id: str
    principal: str
    decided_at_ms: int
    throttled_until_ms: int
    quota: float | None = None
    refused_pids: int = 0
    client_ids: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, int] = field(default_factory=dict)

    def received(self, now_ms: int) -> "ThrottleDecision":
        """Return a copy that ends when its leases end. Call this when the decision arrives."""
        lasts_ms = min(self.throttled_until_ms - self.decided_at_ms, MAX_LEASE_MS)
        end_ms = min(self.throttled_until_ms, now_ms + lasts_ms, self.decided_at_ms + MAX_LEASE_MS)
        return replace(self, throttled_until_ms=end_ms)


@dataclass(frozen=True)
class Target:
    """An entity, and the lever that acts on it."""

    lever: LeverName
    entity: QuotaEntity

    def __str__(self) -> str:
        """Return the target in words.

        Examples:
            >>> str(Target("hold", QuotaEntity("mallory")))
            "hold on user 'mallory'"
        """
        return f"{self.lever} on {self.entity}"


@dataclass(frozen=True)
class Lease:
    """A lever on an entity until `until_ms`. This end was set at `set_ms`.

    `value` is None for a hold. `previous` is the client quota to restore, or None. `revision` orders the lease's
    records even if someone sets a clock.
    """

    lease_id: str
    principal: str
    target: Target
    until_ms: int
    decision_id: str
    state: LeaseState = "applying"
    set_ms: int = 0
    value: float | None = None
    previous: float | None = None
    revision: int = 0

    @classmethod
    def of(cls, decision: ThrottleDecision, target: Target, now_ms: int) -> "Lease":
        """Make a lease in state `applying`, which ends with the decision."""
        principal, until_ms = decision.principal, decision.throttled_until_ms
        return cls(uuid.uuid4().hex, principal, target, until_ms, decision.decision_id, set_ms=now_ms)

    @property
    def is_open(self) -> bool:
        """Whether the brokers may have the lease's setting."""
        return self.state in OPEN_STATES

    def is_due(self, now_ms: int) -> bool:
        """Whether the lease has expired, or must end because the clock was set back (`CLOCK_SLACK_MS`)."""
        return self.until_ms <= now_ms or now_ms < self.set_ms - CLOCK_SLACK_MS

    def ending(self, until_ms: int, now_ms: int, decision_id: str | None = None) -> "Lease":
        """Return a copy that ends at `until_ms`. Without `decision_id`, the copy keeps the decision."""
        name = self.decision_id if decision_id is None else decision_id
        return replace(self, until_ms=until_ms, decision_id=name, set_ms=now_ms, revision=self.revision + 1)

    def to(self, state: LeaseState) -> "Lease":
        """Return a copy in another state."""
        return replace(self, state=state, revision=self.revision + 1)


@dataclass(frozen=True)
class LeaseRecord:
    """A lease in a new state: a record of the lease topic and a row of `enforcement_actions`."""

    recorded_at_ms: int
    lease: Lease
    reason: str
    enforcer: str = ""


@dataclass(frozen=True)
class ReleaseOrder:
    """An order to end leases and take none until `until_ms`. `principal` is None for all principals."""

    recorded_at_ms: int
    principal: str | None
    until_ms: int
    reason: str = ""
    enforcer: str = ""


@dataclass(frozen=True)
class AlertRecord:
    """A warning in `enforcement_actions`."""

    recorded_at_ms: int
    principal: str | None
    reason: str
    enforcer: str = ""


EnforcementRecord: TypeAlias = LeaseRecord | ReleaseOrder | AlertRecord


@dataclass(frozen=True)
class Clocks:
    """Clocks in milliseconds: the brokers' time since the epoch, and a monotonic clock."""

    now_ms: Clock
    steady_ms: Clock


class Pace:
    """A timer that is due at once, then at most once per period."""

    def __init__(self, steady_ms: Clock, every_ms: int) -> None:
        self._steady_ms, self._every_ms = steady_ms, every_ms
        self._next_ms: int | None = None

    def is_due(self) -> bool:
        """Whether the timer is due. If it is, the next period begins."""
        now_ms = self._steady_ms()
        if self._next_ms is not None and now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._every_ms
        return True


class Releases:
    """The release orders. A later order replaces an earlier order for the same principal, or for all principals."""

    def __init__(self, orders: Iterable[ReleaseOrder]) -> None:
        self._until_ms = {order.principal: order.until_ms for order in orders}

    def covers(self, principal: str, now_ms: int) -> bool:
        """Whether an order forbids leases for a principal."""
        return now_ms < max(self._until_ms.get(None, 0), self._until_ms.get(principal, 0))


def lease_records(records: Iterable[EnforcementRecord]) -> list[LeaseRecord]:
    """Return the records of leases."""
    return [record for record in records if isinstance(record, LeaseRecord)]


def open_leases(records: Iterable[EnforcementRecord]) -> dict[Target, Lease]:
    """Return the leases that are open after these records, which may come in any order."""
    newest: dict[str, Lease] = {}
    for lease in (record.lease for record in lease_records(records)):
        kept = newest.get(lease.lease_id)
        if kept is None or _newness(kept) <= _newness(lease):
            newest[lease.lease_id] = lease
    return {lease.target: lease for lease in newest.values() if lease.is_open}


def _newness(lease: Lease) -> tuple[bool, int]:
    return not lease.is_open, lease.revision


def user_of(principal: str) -> str | None:
    """Return the bare name that quotas use for a principal, or None.

    Examples:
        >>> user_of("User:mallory"), user_of("unknown"), user_of("mallory")
        ('mallory', None, None)
    """
    if principal == UNKNOWN_PRINCIPAL:
        return None
    try:
        return entity_name(principal)
    except InvalidPrincipalError:
        return None


def may_touch(principal: str, never: Iterable[str]) -> bool:
    """Whether a principal may be throttled. `never` lists more exceptions: principals or bare names.

    Examples:
        >>> may_touch("User:mallory", ["etl"]), may_touch("User:etl", ["etl"]), may_touch("User:ANONYMOUS", [])
        (True, False, False)
    """
    user = user_of(principal)
    # A principal of another type shares the client quota of the user with the same name.
    names = {principal, user, f"User:{user}"}
    return user is not None and names.isdisjoint({*NEVER_ENFORCED, *NEVER_TOUCHED, *never})

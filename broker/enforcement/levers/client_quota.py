"""The base of levers that set a client quota for a lease and restore it afterwards."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import Protocol

from broker.enforcement.levers.base import LeaseChange, NextStep, Stray
from broker.enforcement.levers.canary import Canary
from broker.enforcement.model import Lease, LeverName, Target, ThrottleDecision
from broker.enforcement.notices import format_value
from broker.errors import BrokerError
from broker.kafka.quota_entity import QuotaChange, QuotaEntity

_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}


class QuotaStore(Protocol):
    """The brokers' client quotas; see `ClientQuotas`."""

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the quotas of exactly this entity, by key."""

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return all quotas except defaults."""

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return the value that applies to an entity without its own value."""

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, BrokerError | None]:
        """Set or remove values."""


class ClientQuotaLever:
    """A lever that sets a client quota and restores the previous value. `name` is also the quota's key."""

    canary: Canary | None = None

    def __init__(self, quotas: QuotaStore, name: LeverName, value: float) -> None:
        self.name: LeverName = name
        self._quotas, self._value = quotas, value

    def new_lease(self, decision: ThrottleDecision, target: Target, now_ms: int) -> Lease | str:
        """Return a lease with the value to restore, or why there is none: the effective quota is already as tight."""
        previous = self._quotas.describe(target.entity).get(self.name)
        wider = self._quotas.inherited(target.entity, self.name, decision.client_ids)
        # A client id's quota overrides the user's quota and the default. The lease must not loosen either of them.
        tightest = min((each for each in (previous, wider) if each is not None), default=None)
        if tightest is not None and tightest <= self._value:
            return f"the effective {target} is already {tightest:g}, not above {self._value:g}"
        return replace(Lease.of(decision, target, now_ms), value=self._value, previous=previous)

    def next_step(self, lease: Lease, now_ms: int) -> NextStep:
        """Compare the brokers' value with the lease's value and the previous value."""
        found = self._quotas.describe(lease.target.entity).get(self.name)
        step = next_step(lease, found, now_ms)
        why_not = self._why_end(lease) if step.name in ("apply", "keep", "confirm") else ""
        return NextStep("close" if step.name == "apply" else "restore", why_not) if why_not else step

    def _why_end(self, lease: Lease) -> str:
        wider = self._quotas.inherited(lease.target.entity, self.name)
        loosens = wider is not None and lease.value is not None and wider < lease.value
        return "a quota that would apply instead is tighter than the lease" if loosens else ""

    def change(self, changes: Sequence[LeaseChange]) -> Mapping[Target, BrokerError | None]:
        """Set or restore values, in one request."""
        errors = self._quotas.alter(
            [
                QuotaChange(lease.target.entity, self.name, lease.value if is_set else lease.previous)
                for lease, is_set in changes
            ]
        )
        return {Target(self.name, entity): error for entity, error in errors.items()}

    def strays(self, known: Collection[Lease], _now_ms: int) -> list[Stray]:
        """Find quotas with this lever's value that belong to no lease."""
        leased = {lease.target.entity for lease in known if lease.target.lever == self.name}
        return [
            self._stray(entity)
            for entity, values in self._quotas.describe_all().items()
            if values.get(self.name) == self._value and entity not in leased
        ]

    def _stray(self, entity: QuotaEntity) -> Stray:
        target = Target(self.name, entity)
        names = " ".join(f"--entity-type {_TYPES[each]} --entity-name {quote(name)}" for each, name in entity.parts())
        why = f"the {target} is {self._value:g}, the value of a lease, but no lease is open on it"
        return Stray(target, why, f"kafka-configs.sh --alter {names} --delete-config {self.name}")


def next_step(lease: Lease, found: float | None, now_ms: int) -> NextStep:
    """Return the next step of an open lease on a client quota.

    Examples:
        >>> lease = Lease("1", "User:m", Target("request_percentage", QuotaEntity("m")), 2000, "d", value=0.01)
        >>> [next_step(lease, found, 1000).name for found in (None, 0.01, 7.0)]
        ['apply', 'confirm', 'relinquish']
        >>> [next_step(lease.to("in_force"), found, 2000).name for found in (0.01, None, 7.0)]
        ['restore', 'close', 'relinquish']
    """
    ending = lease.state == "restoring" or lease.is_due(now_ms)
    if found == lease.value:
        if ending:
            return NextStep("restore")
        return NextStep("confirm" if lease.state == "applying" else "keep")
    if found == lease.previous and ending:
        return NextStep("close")
    # The brokers have the previous value. In the state `applying`, the lease's value is not set yet. In a later state,
    # someone else restored the previous value.
    if found == lease.previous and lease.state == "applying":
        return NextStep("apply")
    return NextStep("relinquish", f"someone else set it to {format_value(found)}, which stays", vanished=found is None)

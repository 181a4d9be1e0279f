"""Plans which leases a throttle decision takes or extends, within the operator's limits. No I/O, no clock."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from broker.cluster.client_quotas import REQUEST_PERCENTAGE
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.leases.lease_rules import Holds, Lease
from broker.leases.lease_targets import (
    Lever,
    Targets,
    ThrottleDecision,
    hold_target,
    ip_targets,
    may_touch,
    user_targets,
)
from wire.holds import LONGEST_HOLD_MS

_HOLD_SLACK_MS = 600_000
"""Brokers ignore a hold that ends too late by their own clock, which may be behind."""


@dataclass(frozen=True)
class EnforcerOptions:
    """Limits and choices set by the operator.

    Attributes:
        lever: Quota key that throttles, or `hold`.
        value: Enforced value: percent of a handler thread, or connections per second. With `hold`: of the
            `request_percentage` that is set where no hold can be used, or none is enough.
        narrow: Whether single client ids may be throttled instead of the user.
        never: Principals that are never throttled, bare or with their type.
        shared_client_ids: Client ids that healthy producers also use.
        hosts: Principals by ip; for the lever `connection_creation_rate`.
        max_entities: Maximum of open leases.
        max_principals: Maximum of throttled principals.
        max_lease_ms: Maximum duration of a lease.
        hands_off_ms: Cool-down of an entity after someone else changed its quota during a lease.
    """

    lever: Lever = "request_percentage"
    value: float = 0.01
    narrow: bool = True
    never: frozenset[str] = frozenset()
    shared_client_ids: frozenset[str] = frozenset()
    hosts: Mapping[str, Collection[str]] = field(default_factory=dict)
    max_entities: int = 50
    max_principals: int = 10
    max_lease_ms: int = 3_600_000
    hands_off_ms: int = 3_600_000

    @property
    def quota_key(self) -> str:
        """The client quota that is set, with `hold` where no hold can be used or none is enough."""
        return REQUEST_PERCENTAGE if self.lever == HOLD else self.lever

    @property
    def longest_ms(self) -> int:
        """Longest lease without a new decision."""
        return min(self.max_lease_ms, LONGEST_HOLD_MS - _HOLD_SLACK_MS) if self.lever == HOLD else self.max_lease_ms


@dataclass(frozen=True)
class HoldContext:
    """What holds can do now.

    Attributes:
        trouble: Why no hold can be used; empty if holds can.
        escalated: Principals for whom a hold is not enough, and why.
    """

    trouble: str = ""
    escalated: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanContext:
    """The state that planning depends on.

    Attributes:
        leases: Open leases by entity.
        holds: Release orders in force.
        hands_off: End of the cool-down by entity, in milliseconds since the epoch.
        narrowed: Client ids that ever had a lease of their own, by user.
        ended: Decision and entity of leases that are over for good.
        holding: What holds can do now.
    """

    leases: Mapping[QuotaEntity, Lease]
    holds: Holds
    hands_off: Mapping[QuotaEntity, int]
    narrowed: Mapping[str, Collection[str]]
    ended: Collection[tuple[str, QuotaEntity]]
    holding: HoldContext = field(default_factory=HoldContext)

    def with_leases(self, leases: Mapping[QuotaEntity, Lease]) -> "PlanContext":
        """Return a copy with these leases added."""
        return replace(self, leases={**self.leases, **leases})


@dataclass(frozen=True)
class LeasePlan:
    """What a decision asks for.

    Attributes:
        extend: Open leases to extend.
        take: Entities to take a lease on.
        why: Why these entities.
        skipped: Why the decision is not enforced, or only in part; None if it is in full.
    """

    extend: tuple[Lease, ...] = ()
    take: tuple[QuotaEntity, ...] = ()
    why: str = ""
    skipped: str | None = None

    @staticmethod
    def longer(lease: Lease, decision: ThrottleDecision, now_ms: int) -> Lease:
        """Return a lease extended to the decision's end, set now."""
        return lease.longer(decision.throttled_until_ms, decision.decision_id, now_ms)


def clipped(decision: ThrottleDecision, now_ms: int, options: EnforcerOptions) -> ThrottleDecision:
    """Return the decision with the end that its leases get, computed once, on arrival.

    Never later than the decision says, nor further from now than it was meant to last: a clock of ours that is behind
    the broker's extends no lease.
    """
    lasts_ms = min(decision.throttled_until_ms - decision.decided_at_ms, options.longest_ms)
    return replace(decision, throttled_until_ms=min(decision.throttled_until_ms, now_ms + lasts_ms))


def plan(decision: ThrottleDecision, now_ms: int, options: EnforcerOptions, known: PlanContext) -> LeasePlan:
    """Plan the leases of a decision that is in force (and clipped)."""
    if not may_touch(decision.principal, options.never):
        return LeasePlan(skipped="the principal is on the list of those never touched")
    if known.holds.covers(decision.principal, now_ms):
        return LeasePlan(skipped="a release order (--release) is in force")
    targets = _targets(decision, now_ms, options, known)
    if not targets.entities:
        return LeasePlan(skipped=targets.why)

    own = [lease for lease in known.leases.values() if lease.principal == decision.principal]
    wanted = {*targets.entities} | {lease.entity for lease in own if lease.entity.client_id in decision.client_ids}
    extend = tuple(lease for lease in own if lease.entity in wanted and _can_be_longer(lease, decision))
    take, skipped = _within_limits(
        [entity for entity in targets.entities if _is_free(entity, decision, now_ms, known)], decision, options, known
    )
    left_alone = [entity for entity in targets.entities if known.hands_off.get(entity, 0) > now_ms]
    if left_alone and not skipped:
        skipped = f"someone else changed the quota of {left_alone[0]} during a lease (--hands-off-seconds)"
    return LeasePlan(extend, take, targets.why, skipped)


def _can_be_longer(lease: Lease, decision: ThrottleDecision) -> bool:
    # A decision reread after a restart extends nothing.
    other = lease.decision_id != decision.decision_id
    return other and lease.state != "restoring" and lease.until_ms < decision.throttled_until_ms


def _is_free(entity: QuotaEntity, decision: ThrottleDecision, now_ms: int, known: PlanContext) -> bool:
    hands_off = known.hands_off.get(entity, 0) > now_ms
    return not (hands_off or entity in known.leases or (decision.decision_id, entity) in known.ended)


def _targets(decision: ThrottleDecision, now_ms: int, options: EnforcerOptions, known: PlanContext) -> Targets:
    if options.lever == "connection_creation_rate":
        return ip_targets(decision, options.hosts)
    quotas = user_targets(
        decision,
        narrow=options.narrow,
        shared=options.shared_client_ids,
        written=known.narrowed.get(decision.principal.partition(":")[2], ()),
    )
    return _hold_targets(decision, now_ms, quotas, known) if options.lever == HOLD else quotas


def _hold_targets(decision: ThrottleDecision, now_ms: int, quotas: Targets, known: PlanContext) -> Targets:
    hold, trouble = hold_target(decision), known.holding.trouble
    if hold is None or trouble:
        trouble = trouble or "it knows principals of type User alone"
        return Targets(quotas.entities, f"a client quota instead of a hold: {trouble}; {quotas.why}")
    escalated = known.holding.escalated.get(decision.principal)
    if escalated is None or known.hands_off.get(hold, 0) > now_ms:
        return Targets((hold,), "its known PIDs go on")
    return Targets((hold, *quotas.entities), f"{escalated}; {quotas.why}")


def _within_limits(
    entities: list[QuotaEntity], decision: ThrottleDecision, options: EnforcerOptions, known: PlanContext
) -> tuple[tuple[QuotaEntity, ...], str | None]:
    if not entities:
        return (), None
    principals = {lease.principal for lease in known.leases.values()}
    if decision.principal not in principals and len(principals) >= options.max_principals:
        return (), f"{len(principals)} principals are throttled already, the most allowed (--max-principals)"
    in_force = len(known.leases)
    room = max(0, options.max_entities - in_force)
    full = f"{in_force} quotas are in force, of at most {options.max_entities} (--max-entities)"
    return tuple(entities[:room]), full if room < len(entities) else None

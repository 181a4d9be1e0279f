"""Keeps the decisions in force and plans the leases they ask for: new ones and extensions."""

import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.lease_registry import LeaseRegistry
from broker.enforcer.lease_steps import LeaseReason, LeaseSteps
from broker.enforcer.notices import Notice, lever_text, value_text
from broker.enforcer.ports import Coverage
from broker.errors import BrokerError
from broker.leases.deadlines import Deadlines
from broker.leases.escalation import Escalation
from broker.leases.lease_plan import EnforcerOptions, HoldContext, LeasePlan, clipped, plan
from broker.leases.lease_rules import Lease
from broker.leases.lease_targets import ThrottleDecision

_MAX_REMEMBERED = 10_000


class LeasePlanner:
    """Keeps pending decisions until they are past.

    Args:
        registry: Leases, holds and history.
        steps: Looks up effective quotas.
        deadlines: When decisions and leases end, by both clocks.
        coverage: Whether holds can be used.
        options: Limits set by the operator.
        clock_ms: Wall clock, in milliseconds since the epoch.
        notify: Called with a notice of each skipped decision and shortened lease.
    """

    def __init__(
        self,
        registry: LeaseRegistry,
        steps: LeaseSteps,
        deadlines: Deadlines,
        coverage: Coverage,
        options: EnforcerOptions,
        clock_ms: Callable[[], int],
        notify: Callable[[Notice], None],
    ) -> None:
        self._registry, self._steps, self._deadlines = registry, steps, deadlines
        self._options, self._clock_ms, self._notify = options, clock_ms, notify
        self._coverage, self._escalation = coverage, Escalation()
        self._pending: dict[str, ThrottleDecision] = {}
        self._notified: set[tuple[str, str]] = set()

    @property
    def decision_ids(self) -> Collection[str]:
        """Of the decisions that are not past."""
        return self._pending.keys()

    def clear(self) -> None:
        """Drop all decisions."""
        self._pending.clear()

    def receive(self, decisions: Iterable[ThrottleDecision], now_ms: int) -> None:
        """Add decisions in force; shorten leases of principals whose throttle now ends sooner."""
        ends_ms: dict[str, int] = {}
        sooner = []
        decisions = list(decisions)
        self._escalation.receive(decisions)
        for decision in decisions:
            kept = self._pending.get(decision.decision_id) or clipped(decision, now_ms, self._options)
            ends_ms[kept.principal] = max(ends_ms.get(kept.principal, now_ms), kept.throttled_until_ms)
            if kept.throttled_until_ms > now_ms:
                self._pending[kept.decision_id] = kept
            if kept.ends_sooner:
                sooner.append(kept.principal)
        for principal in dict.fromkeys(sooner):
            self._shorten(principal, ends_ms[principal], now_ms)

    def plan(self, now_ms: int) -> tuple[list[LeaseReason], list[Lease]]:
        """Return the leases to take, with reasons, and the open leases to extend, with their new ends."""
        known = self._registry.known()
        if self._options.lever == HOLD:
            known = replace(known, holding=self._holding())
        fresh: list[LeaseReason] = []
        extended: list[Lease] = []
        for decision in list(self._pending.values()):
            if self._deadlines.is_past(decision.decision_id, decision.throttled_until_ms, now_ms):
                del self._pending[decision.decision_id]
                continue
            what = plan(decision, now_ms, self._options, known)
            if what.skipped:
                self._notify_once(decision, what.skipped)
            longer = [what.longer(lease, decision, now_ms) for lease in what.extend]
            new = self._new_leases(decision, what, now_ms)
            later = {lease.lease_id: lease for lease in longer}
            # One that is not taken yet gets its last end at once.
            fresh = [(later.pop(lease.lease_id, lease), why) for lease, why in fresh] + new
            extended = [lease for lease in extended if lease.lease_id not in later] + [*later.values()]
            known = known.with_leases({lease.entity: lease for lease in (*longer, *(lease for lease, _ in new))})
        return fresh, extended

    def _holding(self) -> HoldContext:
        pending = {decision.principal for decision in self._pending.values()}
        self._escalation.observe(self._registry.leases.values(), pending)
        return HoldContext(self._coverage.trouble() if pending else "", dict(self._escalation.escalated))

    def _shorten(self, principal: str, until_ms: int, now_ms: int) -> None:
        for name, decision in self._pending.items():
            if decision.principal == principal and decision.throttled_until_ms > until_ms:
                self._pending[name] = replace(decision, throttled_until_ms=until_ms)
        leases = [
            replace(lease, until_ms=until_ms, set_ms=now_ms)
            for lease in self._registry.leases.values()
            if lease.principal == principal and lease.until_ms > until_ms
        ]
        why = "its quota was raised or removed"
        self._registry.record([(lease, why) for lease in leases], now_ms)
        for lease in leases:
            self._notify(Notice.of(lease, now_ms, "shortened", why))

    def _new_leases(self, decision: ThrottleDecision, what: LeasePlan, now_ms: int) -> list[LeaseReason]:
        quota = "" if decision.quota is None else f", quota {decision.quota:g}"
        why = f"{decision.refused_pids} PID{'' if decision.refused_pids == 1 else 's'} refused{quota}; {what.why}"
        leases = (self._new_lease(decision, entity, now_ms) for entity in what.take if self._steps.may_try(entity))
        return [(lease, why) for lease in leases if lease is not None]

    def _new_lease(self, decision: ThrottleDecision, entity: QuotaEntity, now_ms: int) -> Lease | None:
        key = HOLD if entity.is_hold else self._options.quota_key
        try:
            previous, wider = self._steps.effective_quotas(entity, key, decision.client_ids)
        except BrokerError:
            return None
        if key == HOLD:
            value, why_not = float(decision.throttled_until_ms), _why_no_hold(entity, previous, now_ms)
            # A hold that is over and still listed is nothing to restore.
            previous = None
        else:
            value, why_not = self._options.value, _why_no_quota(entity, key, (previous, wider), self._options.value)
        if why_not:
            self._notify_once(decision, why_not)
            return None
        return Lease(
            uuid.uuid4().hex,
            decision.principal,
            entity,
            key,
            previous,
            value,
            decision.throttled_until_ms,
            decision.decision_id,
            set_ms=now_ms,
        )

    def _notify_once(self, decision: ThrottleDecision, why: str) -> None:
        if (decision.decision_id, why) in self._notified:
            return
        if len(self._notified) >= _MAX_REMEMBERED:
            self._notified.clear()
        self._notified.add((decision.decision_id, why))
        self._notify(Notice(self._clock_ms(), "skipped", why, decision.principal, decision_id=decision.decision_id))


def _why_no_hold(entity: QuotaEntity, found: float | None, now_ms: int) -> str:
    is_there = found is not None and found > now_ms
    return f"{entity} are on hold already, {lever_text(HOLD, found)}: not by us" if is_there else ""


def _why_no_quota(entity: QuotaEntity, key: str, found: Collection[float | None], value: float) -> str:
    # A quota for a client id overrides the user's, and a user's overrides the default: ours must not be looser.
    tightest = min((each for each in found if each is not None), default=None)
    if tightest is None or tightest > value:
        return ""
    return f"the effective {key} of {entity} is already {value_text(tightest)}, not above {value_text(value)}"

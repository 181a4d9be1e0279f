"""Plans leases for decisions, within the operator's limits."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from broker.enforcement.clock import Deadlines
from broker.enforcement.escalation import Escalation
from broker.enforcement.levers.base import Lever, TargetLimits, Targets
from broker.enforcement.model import LADDER, Lease, LeverName, Releases, Target, ThrottleDecision, may_touch
from broker.enforcement.notices import Notice

LeverChoice = Literal["auto", LeverName]

_MAX_REMEMBERED = 10_000


@dataclass(frozen=True)
class EnforcerOptions:
    """The operator's options. `never` lists principals, or bare names, that are not throttled."""

    lever: LeverChoice = "auto"
    narrow: bool = True
    never: frozenset[str] = frozenset()
    shared_client_ids: frozenset[str] = frozenset()
    max_entities: int = 50
    max_principals: int = 10
    hands_off_ms: int = 3_600_000

    @property
    def ladder(self) -> tuple[LeverName, ...]:
        """The levers that may be used, strongest first."""
        return LADDER if self.lever == "auto" else LADDER[LADDER.index(self.lever) :]


@dataclass(frozen=True)
class Known:
    """The state that planning depends on.

    Attributes:
        hands_off: Targets that get no lease before the given time, in ms since the epoch.
        narrowed: The client ids that have been the target of a lease, by user.
        ended: The decision and target of each lease that must not be taken again.
    """

    leases: Mapping[Target, Lease]
    releases: Releases
    hands_off: Mapping[Target, int]
    narrowed: Mapping[str, Collection[str]]
    ended: Collection[tuple[str, Target]]

    def with_leases(self, leases: Iterable[Lease]) -> "Known":
        """Return a copy with more leases."""
        return replace(self, leases={**self.leases, **{lease.target: lease for lease in leases}})


@dataclass(frozen=True)
class LeasePlan:
    """The leases for a decision. `skipped` tells why the decision is not enforced in full, or is empty."""

    extend: tuple[Lease, ...] = ()
    take: tuple[Target, ...] = ()
    why: str = ""
    skipped: str = ""


class Planner:
    """The decisions in force, and plans for their leases."""

    def __init__(
        self,
        levers: Mapping[LeverName, Lever],
        options: EnforcerOptions,
        deadlines: Deadlines,
        notify: Callable[[Notice], None],
    ) -> None:
        self._levers, self._options, self._deadlines, self._notify = levers, options, deadlines, notify
        self._newest: dict[str, ThrottleDecision] = {}
        self._over: dict[str, None] = {}
        self._escalation = Escalation()
        self._notified: set[tuple[str, str]] = set()

    @property
    def decision_ids(self) -> Collection[str]:
        """Ids of the newest decisions."""
        return {decision.decision_id for decision in self._newest.values()}

    def clear(self) -> None:
        """Drop all decisions."""
        self._newest.clear()

    def receive(self, decisions: Iterable[ThrottleDecision], now_ms: int) -> dict[str, int]:
        """Store the newest decisions. Return the end of each principal's throttle."""
        decisions = list(decisions)
        self._escalation.receive(decisions)
        for decision in decisions:
            known = self._newest.get(decision.principal)
            if known is None or known.decision_id != decision.decision_id:
                received = decision.received(now_ms)
                # A decision ends after its duration by the monotonic clock, whatever the brokers' clock shows. Its
                # duration starts here, because no lease is planned while `enforcement_actions` is unreadable.
                self._deadlines.end_ms(decision.decision_id, received.throttled_until_ms, now_ms)
                is_over = decision.decision_id in self._over
                received = replace(received, throttled_until_ms=now_ms) if is_over else received
                self._newest[decision.principal] = received
        principals = {decision.principal for decision in decisions}
        return {principal: max(now_ms, self._newest[principal].throttled_until_ms) for principal in principals}

    def in_force(self, now_ms: int, leases: Iterable[Lease]) -> list[ThrottleDecision]:
        """Return the decisions in force. Forget all others."""
        found: list[ThrottleDecision] = []
        for principal, each in list(self._newest.items()):
            end_ms = self._deadlines.end_ms(each.decision_id, each.throttled_until_ms, now_ms)
            if end_ms <= now_ms:
                del self._newest[principal]
                self._over[each.decision_id] = None
            else:
                found.append(replace(each, throttled_until_ms=end_ms))
        while len(self._over) > _MAX_REMEMBERED:
            del self._over[next(iter(self._over))]
        self._escalation.observe(leases, self._newest.keys())
        return found

    def plan(self, decision: ThrottleDecision, known: Known, now_ms: int) -> LeasePlan:
        """Plan the leases of a decision in force. Notify if the decision is not enforced in full."""
        what = self._plan(decision, known, now_ms)
        if what.skipped:
            self.skip(decision, what.skipped, now_ms)
        return what

    def skip(self, decision: ThrottleDecision, why: str, now_ms: int) -> None:
        """Notify, once per reason, that a decision is not enforced in full."""
        if (decision.decision_id, why) not in self._notified:
            if len(self._notified) >= _MAX_REMEMBERED:
                self._notified.clear()
            self._notified.add((decision.decision_id, why))
            self._notify(Notice(now_ms, "skipped", why, decision.principal, decision_id=decision.decision_id))

    def _plan(self, decision: ThrottleDecision, known: Known, now_ms: int) -> LeasePlan:
        if not may_touch(decision.principal, self._options.never):
            return LeasePlan(skipped="the principal is never throttled (--never, or a default)")
        if known.releases.covers(decision.principal, now_ms):
            return LeasePlan(skipped="a release order (--release) is in force")
        chosen = self._choose(decision, known)
        if not chosen.targets:
            return LeasePlan(skipped=chosen.why)
        own = [lease for lease in known.leases.values() if lease.principal == decision.principal]
        extend = tuple(lease for lease in own if _is_extended(lease, decision, chosen))
        left_alone = [target for target in chosen.targets if known.hands_off.get(target, 0) > now_ms]
        taken = {*left_alone, *known.leases}
        free = [
            each for each in chosen.targets if each not in taken and (decision.decision_id, each) not in known.ended
        ]
        take, skipped = self._within_limits(free, decision, known)
        if left_alone and not skipped:
            skipped = f"someone else changed the {left_alone[0]} during a lease (--hands-off-seconds)"
        return LeasePlan(extend, take, chosen.why, skipped)

    def _choose(self, decision: ThrottleDecision, known: Known) -> Targets:
        """Choose targets of the strongest levers that suffice. The result tells why each lever was chosen or not."""
        limits = TargetLimits(
            narrow=self._options.narrow,
            shared_client_ids=self._options.shared_client_ids,
            written=known.narrowed.get(decision.principal.partition(":")[2], ()),
        )
        escalated = self._escalation.levels().get(decision.principal)
        level, words = (escalated.level, [escalated.why]) if escalated else (0, [])
        left, targets = 1 + level, list[Target]()
        for lever in (self._levers[name] for name in self._options.ladder):
            reason = lever.unavailable_reason()
            found = Targets((), reason) if reason else lever.targets(decision, limits)
            if found.cover and not level:
                limits = replace(limits, spare_user=True)
            words.append(f"{lever.name}: {found.why}" if found.targets else f"no {lever.name}: {found.why}")
            targets += found.targets
            left -= lever.suffices and bool(found.targets)
            if not left:
                break
        return Targets(tuple(targets), "; ".join(words))

    def _within_limits(
        self, targets: list[Target], decision: ThrottleDecision, known: Known
    ) -> tuple[tuple[Target, ...], str]:
        if not targets:
            return (), ""
        principals = {lease.principal for lease in known.leases.values()}
        if decision.principal not in principals and len(principals) >= self._options.max_principals:
            return (), f"{len(principals)} principals are throttled already, the most allowed (--max-principals)"
        room = max(0, self._options.max_entities - len(known.leases))
        full = f"{len(known.leases)} leases are open, of at most {self._options.max_entities} (--max-entities)"
        return tuple(targets[:room]), full if room < len(targets) else ""


def _is_extended(lease: Lease, decision: ThrottleDecision, chosen: Targets) -> bool:
    is_wanted = lease.target in chosen.targets or lease.target.entity.client_id in decision.client_ids
    # A decision that is read again after a restart extends no lease.
    is_other = lease.decision_id != decision.decision_id
    return is_wanted and is_other and lease.state != "restoring" and lease.until_ms < decision.throttled_until_ms

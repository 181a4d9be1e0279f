"""Notices principals for whom a hold is not enough: refused producer ids go on arriving. No I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker.cluster.hold_bindings import HOLD
from broker.leases.lease_rules import Lease
from broker.leases.lease_targets import ThrottleDecision

_SETTLE_MS = 10_000
"""Producers that had their id before the hold send their first message within that."""


@dataclass
class _Held:
    """A time in which a principal was on hold without a pause.

    Attributes:
        since_ms: When it began, in milliseconds since the epoch.
        until_ms: When it ends, as far as is known.
        refused: Refused producer ids by broker, as of the last decision made within it.
    """

    since_ms: int
    until_ms: int
    refused: dict[int | None, int] = field(default_factory=dict)


class Escalation:
    """Compares the refused producer ids of decisions that were made while a hold was in force.

    A producer that was refused and goes on makes decisions, too, but no *more* refused producer ids. So it takes two
    decisions under one hold, the second with more of them.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._escalated: dict[str, str] = {}

    @property
    def escalated(self) -> Mapping[str, str]:
        """Principals for whom a hold is not enough, and why."""
        return self._escalated

    def receive(self, decisions: Iterable[ThrottleDecision]) -> None:
        """Learn of decisions, those of a principal and broker in their order; one may come again."""
        for decision in decisions:
            held = self._held.get(decision.principal)
            if held and held.since_ms + _SETTLE_MS <= decision.decided_at_ms <= held.until_ms:
                self._compare(decision, held)

    def _compare(self, decision: ThrottleDecision, held: _Held) -> None:
        before = held.refused.get(decision.broker_id)
        held.refused[decision.broker_id] = decision.refused_pids
        held.until_ms = max(held.until_ms, decision.throttled_until_ms)
        if before is not None and before < decision.refused_pids:
            self._escalated[decision.principal] = (
                f"refused PIDs go on arriving under a hold ({before}, then {decision.refused_pids}): handed out before "
                f"it, or with new transactional ids, which it does not reach (`pid-quota why {decision.principal}`)"
            )

    def observe(self, leases: Iterable[Lease], pending: Collection[str]) -> None:
        """Learn which holds are in force.

        Args:
            leases: Open leases.
            pending: Principals of decisions that are not past; all others are forgotten.
        """
        own = [lease for lease in leases if lease.quota_key == HOLD and lease.state == "in_force"]
        holds = {lease.principal: lease for lease in own}
        for principal, lease in holds.items():
            held = self._held.get(principal)
            if held is None or held.until_ms < lease.set_ms:
                self._held[principal] = held = _Held(lease.set_ms, lease.until_ms)
            held.until_ms = max(held.until_ms, lease.until_ms)
        for gone in self._held.keys() - holds.keys() - {*pending}:
            del self._held[gone]
        for gone in self._escalated.keys() - {*pending}:
            del self._escalated[gone]

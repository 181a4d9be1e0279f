"""Finds principals that need another lever, because refused producer ids keep arriving."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from broker.enforcement.model import Lease, ThrottleDecision

_SETTLE_MS = 10_000
"""For this long after a lease's start, producers that got an id earlier may send their first message."""


@dataclass
class EnforcedTime:
    """A period in which a principal always had a lease in force.

    `refused` has the refused ids of the last decision, or None. `level` is the number of further levers that the
    principal needs.
    """

    since_ms: int
    until_ms: int
    refused: int | None = None
    level: int = 0
    why: str = ""


class Escalation:
    """The principals that need another lever.

    A refused producer that keeps sending adds no refused producer id. If a decision while leases are in force has more
    refused ids than the previous decision, the levers let new ids through.
    """

    def __init__(self) -> None:
        self._watched: dict[str, EnforcedTime] = {}

    def levels(self) -> dict[str, EnforcedTime]:
        """Return the principals that need another lever."""
        return {name: each for name, each in self._watched.items() if each.level}

    def receive(self, decisions: Iterable[ThrottleDecision]) -> None:
        """Compare decisions with older decisions. `decisions` is in order per principal; some may repeat."""
        for decision in decisions:
            watched = self._watched.get(decision.principal)
            if not watched or not watched.since_ms + _SETTLE_MS <= decision.decided_at_ms <= watched.until_ms:
                continue
            before, watched.refused = watched.refused, decision.refused_pids
            watched.until_ms = max(watched.until_ms, decision.throttled_until_ms)
            if before is not None and before < decision.refused_pids:
                watched.level += 1
                watched.since_ms, watched.refused = decision.decided_at_ms, None
                watched.why = (
                    f"refused PIDs keep arriving ({before}, then {decision.refused_pids}): handed out before the "
                    f"lever was used, or where it does not reach (`pid-quota why {decision.principal}`)"
                )

    def observe(self, leases: Iterable[Lease], pending: Collection[str]) -> None:
        """Update the leases in force. Forget principals without one, except `pending`, which have a decision."""
        in_force = [lease for lease in leases if lease.state == "in_force"]
        for lease in in_force:
            watched = self._watched.get(lease.principal)
            if watched is None or watched.until_ms < lease.set_ms:
                self._watched[lease.principal] = watched = EnforcedTime(lease.set_ms, lease.until_ms)
            watched.until_ms = max(watched.until_ms, lease.until_ms)
        for gone in self._watched.keys() - {lease.principal for lease in in_force} - {*pending}:
            del self._watched[gone]

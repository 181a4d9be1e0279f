"""What an enforcer knows: the rows of `enforcement_actions`, and the open leases that follow from them."""

from __future__ import annotations

from collections.abc import Sequence

from broker.enforcer_plan import Known
from broker.enforcer_ports import ActionLog
from broker.leases import Action, Holds, Lease, hands_off, narrowed_client_ids, open_leases, record
from broker.quota_entity import QuotaEntity


class EnforcerBook:
    """Keeps rows and leases in step: nothing is known here that was not written down first."""

    def __init__(self, log: ActionLog, name: str, hands_off_ms: int) -> None:
        """Nothing is read yet.

        Args:
            log: Where rows are.
            name: Of this process, for the rows.
            hands_off_ms: How long an entity is left alone after somebody else changed its quota under a lease.
        """
        self.leases: dict[QuotaEntity, Lease] = {}
        self._log, self._name, self._hands_off_ms = log, name, hands_off_ms
        self._actions: list[Action] = []
        self._known: Known | None = None

    def load(self) -> None:
        """Read everything, and take over the leases that are open."""
        self._read()
        self.leases = open_leases(self._actions)

    def refresh(self) -> None:
        """Read again if others wrote something, such as an order to release; our leases stay as they are."""
        if self._log.has_changed():
            self._read()

    def forget(self) -> None:
        """Drop the leases: they are another's now."""
        self.leases.clear()

    def known(self) -> Known:
        """Return what planning needs, with the leases as they are now."""
        if self._known is None:
            self._known = Known(
                {},
                Holds.of(self._actions),
                hands_off(self._actions, self._hands_off_ms),
                narrowed_client_ids(self._actions),
                _ended(self._actions),
            )
        return self._known.with_leases(self.leases)

    def write(self, leases: Sequence[tuple[Lease, str]], now_ms: int) -> None:
        """Write the states of leases down, with reasons; only then they are known."""
        self.add([record(lease, now_ms, why, self._name) for lease, why in leases])
        for lease, _ in leases:
            if lease.is_open:
                self.leases[lease.entity] = lease
            else:
                self.leases.pop(lease.entity, None)

    def write_alert(self, why: str, principal: str | None, now_ms: int) -> None:
        """Write a warning down."""
        self.add([Action(now_ms, "alert", principal, None, why, enforcer=self._name)])

    def add(self, actions: Sequence[Action]) -> None:
        """Write rows down."""
        if actions:
            self._log.append(actions)
            self._actions += actions
            self._known = None

    def _read(self) -> None:
        self._actions = self._log.read()
        self._known = None


def _ended(actions: Sequence[Action]) -> frozenset[tuple[str, QuotaEntity]]:
    """Return the leases that are over for good. One that ended before its time, at a stop, may come back."""
    return frozenset(
        (action.lease.decision_id, action.lease.entity)
        for action in actions
        if action.lease
        and not action.lease.is_open
        and (action.state != "restored" or action.recorded_at_ms >= action.lease.until_ms)
    )

"""What an enforcer knows: the rows of `enforcement_actions`, what the brokers keep of its leases, and what follows.

A lease is taken or made longer only when both have it. It ends whatever becomes of the table: what the table could not
take yet is kept on the brokers until it can.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.ports import ActionLog, LeaseStore
from broker.leases.lease_plan import PlanContext
from broker.leases.lease_rules import Action, Holds, Lease, action_of_lease, hands_off, narrowed_client_ids, open_leases


class LeaseRegistry:
    """Keeps rows, the brokers' records and leases in step.

    Args:
        log: Where rows are.
        store: What the brokers keep.
        name: Of this process, for the rows.
        hands_off_ms: How long an entity is left alone after somebody else changed its quota under a lease.
    """

    def __init__(self, log: ActionLog, store: LeaseStore, name: str, hands_off_ms: int) -> None:
        self.leases: dict[QuotaEntity, Lease] = {}
        self._log, self._store, self._name, self._hands_off_ms = log, store, name, hands_off_ms
        self._actions: list[Action] | None = None
        """Rows of the table; None until they were read once."""
        self._orders: list[Action] = []
        self._unstored: list[Action] = []
        """Steps that the brokers do not keep yet."""
        self._unlogged: list[Action] = []
        """Steps that the table does not have yet."""
        self._known: PlanContext | None = None

    def load(self) -> None:
        """Take over the leases that the brokers keep, without any table.

        Raises:
            LeaseStoreError: If they can't be read.
        """
        kept = self._store.read(again=True)
        steps = [action for action in kept if action.lease]
        self.leases = open_leases(steps)
        self._orders = [action for action in kept if not action.lease]
        self._actions, self._known, self._unstored = None, None, []
        self._unlogged = [action for action in steps if action.lease and not action.lease.is_open]

    def read_orders(self) -> None:
        """Take orders that came by the brokers.

        Raises:
            LeaseStoreError: If they can't be read.
        """
        orders = [action for action in self._store.read() if not action.lease]
        if orders != self._orders:
            self._orders, self._known = orders, None

    def refresh(self) -> list[Lease]:
        """Bring the table up to date, and read it if others wrote there.

        Returns:
            Leases that only the table knew; they are ours from now on.

        Raises:
            Exception: Of the table or the brokers.
        """
        self.flush()
        if self._actions is not None and not self._log.has_changed():
            return []
        is_first = self._actions is None
        actions = self._log.read()
        found = self._adopt(actions) if is_first else []
        self._actions, self._known = actions, None
        return found

    def clear(self) -> None:
        """Drop the leases: they are another's now."""
        self.leases.clear()
        self._unstored, self._unlogged = [], []

    def known(self) -> PlanContext:
        """Return what planning needs, with the leases as they are now."""
        if self._known is None:
            actions = self._actions or []
            orders = [*(action for action in actions if action.state == "hold"), *self._orders]
            self._known = PlanContext(
                {},
                Holds.of(sorted(orders, key=lambda order: order.recorded_at_ms)),
                hands_off(actions, self._hands_off_ms),
                narrowed_client_ids(actions),
                _ended(actions),
            )
        return self._known.with_leases(self.leases)

    def write_ahead(self, leases: Sequence[tuple[Lease, str]], now_ms: int) -> None:
        """Write down leases that are to be taken or made longer, with reasons; only then they are known.

        Raises:
            Exception: If the table or the brokers do not have them: then it must not be done.
        """
        actions = [action_of_lease(lease, now_ms, why, self._name) for lease, why in leases]
        if actions:
            self._add(actions)
            self._store.append(actions)
            self.leases.update({lease.entity: lease for lease, _ in leases})

    def record(self, leases: Sequence[tuple[Lease, str]], now_ms: int) -> None:
        """Take what became of leases, with reasons; `flush` writes it down."""
        actions = [action_of_lease(lease, now_ms, why, self._name) for lease, why in leases]
        self._unstored += actions
        self._unlogged += actions
        for lease, _ in leases:
            if lease.is_open:
                self.leases[lease.entity] = lease
            else:
                self.leases.pop(lease.entity, None)

    def record_alert(self, why: str, principal: str | None, now_ms: int) -> None:
        """Take a warning; `flush` writes it down."""
        self._unlogged.append(Action(now_ms, "alert", principal, None, why, enforcer=self._name))

    def flush(self) -> None:
        """Write down what is not yet.

        Raises:
            Exception: If the brokers or the table do not take it; it is kept for the next time.
        """
        newest = {action.lease.lease_id: action for action in self._unstored if action.lease}
        if newest:
            self._store.append(list(newest.values()))
        self._unstored = []
        if not self._unlogged:
            return
        self._add(self._unlogged)
        over = [action.lease.lease_id for action in self._unlogged if action.lease and not action.lease.is_open]
        self._unlogged = []
        if over:
            self._store.drop(over)

    def _add(self, actions: Sequence[Action]) -> None:
        self._log.append(actions)
        if self._actions is not None:
            self._actions += actions
        self._known = None

    def _adopt(self, actions: Sequence[Action]) -> list[Lease]:
        """Take over what the table has and the brokers do not: leases of earlier versions, or of a topic made anew."""
        known = {action.lease.lease_id for action in self._store.read() if action.lease}
        found = [lease for lease in open_leases(actions).values() if lease.lease_id not in known]
        found = [lease for lease in found if lease.entity not in self.leases]
        if found:
            self._store.append(
                [action_of_lease(lease, lease.set_ms, "found in the table", self._name) for lease in found]
            )
            self.leases.update({lease.entity: lease for lease in found})
        return found


def _ended(actions: Sequence[Action]) -> frozenset[tuple[str, QuotaEntity]]:
    """Return the leases that are over for good. One that ended before its time, at a stop, may come back."""
    return frozenset(
        (action.lease.decision_id, action.lease.entity)
        for action in actions
        if action.lease
        and not action.lease.is_open
        and (action.state != "restored" or action.recorded_at_ms >= action.lease.until_ms)
    )

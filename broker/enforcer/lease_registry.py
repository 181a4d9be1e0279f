"""The enforcer's state: rows of `enforcement_actions`, records of the lease topic, and the leases they describe.

A lease is taken or extended only once both have it. It ends even if the table is unavailable: rows that could not be
written stay in the lease topic until they can.
"""

from collections.abc import Sequence

from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.ports import ActionLog, LeaseStore
from broker.leases.lease_plan import PlanContext
from broker.leases.lease_rules import Action, Holds, Lease, action_of_lease, hands_off, narrowed_client_ids, open_leases


class LeaseRegistry:
    """Keeps the table, the lease topic and the open leases consistent.

    Args:
        log: The table.
        store: The lease topic.
        name: Names this process in the rows.
        hands_off_ms: Cool-down of an entity after someone else changed its quota during a lease.
    """

    def __init__(self, log: ActionLog, store: LeaseStore, name: str, hands_off_ms: int) -> None:
        self.leases: dict[QuotaEntity, Lease] = {}
        self._log, self._store, self._name, self._hands_off_ms = log, store, name, hands_off_ms
        self._actions: list[Action] | None = None
        """Rows of the table; None before the first read."""
        self._orders: list[Action] = []
        self._unstored: list[Action] = []
        """Steps not yet in the lease topic."""
        self._unlogged: list[Action] = []
        """Steps not yet in the table."""
        self._known: PlanContext | None = None

    def load(self) -> None:
        """Load the leases from the lease topic, without the table.

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
        """Read new release orders from the lease topic.

        Raises:
            LeaseStoreError: If they can't be read.
        """
        orders = [action for action in self._store.read() if not action.lease]
        if orders != self._orders:
            self._orders, self._known = orders, None

    def refresh(self) -> list[Lease]:
        """Flush pending rows, then reread the table if others wrote to it.

        Returns:
            Leases found only in the table, now adopted.

        Raises:
            Exception: Whatever the table or the lease topic raises.
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
        """Drop all leases: another enforcer owns them now."""
        self.leases.clear()
        self._unstored, self._unlogged = [], []

    def known(self) -> PlanContext:
        """Return what planning needs, with the current leases."""
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
        """Log leases to be taken or extended, with reasons, to the table and the lease topic, then register them.

        Raises:
            Exception: If either was not written: the change must not be made.
        """
        actions = [action_of_lease(lease, now_ms, why, self._name) for lease, why in leases]
        if actions:
            self._add(actions)
            self._store.append(actions)
            self.leases.update({lease.entity: lease for lease, _ in leases})

    def record(self, leases: Sequence[tuple[Lease, str]], now_ms: int) -> None:
        """Register new states of leases, with reasons; `flush` logs them."""
        actions = [action_of_lease(lease, now_ms, why, self._name) for lease, why in leases]
        self._unstored += actions
        self._unlogged += actions
        for lease, _ in leases:
            if lease.is_open:
                self.leases[lease.entity] = lease
            else:
                self.leases.pop(lease.entity, None)

    def record_alert(self, why: str, principal: str | None, now_ms: int) -> None:
        """Register a warning; `flush` logs it."""
        self._unlogged.append(Action(now_ms, "alert", principal, None, why, enforcer=self._name))

    def flush(self) -> None:
        """Write pending steps to the lease topic, then to the table.

        Raises:
            Exception: If either can't be written; the steps stay pending.
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
        """Adopt leases that only the table has: of earlier versions, or from before the topic was recreated."""
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
    """Return the leases that are over for good. One that ended early, because the enforcer stopped, may come back."""
    return frozenset(
        (action.lease.decision_id, action.lease.entity)
        for action in actions
        if action.lease
        and not action.lease.is_open
        and (action.state != "restored" or action.recorded_at_ms >= action.lease.until_ms)
    )

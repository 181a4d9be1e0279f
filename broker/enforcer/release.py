"""`pid-quota enforce --release…`: the kill switch. An order in the lease topic, which any running enforcer obeys."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from broker.enforcer.enforcer import Enforcer
from broker.enforcer.notices import Notice
from broker.enforcer.ports import ActionLog, Clocks, LeaseStore
from broker.errors import EnforceError, LeaseStoreError
from broker.leases.lease_rules import Action, Lease, open_leases
from tables.errors import TableError

_LIMIT_MS = 60_000
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Orders:
    """Logs release orders, and reads which leases are still open, independently of the enforcer's own state.

    Attributes:
        kept: The lease topic.
        log: The table; the order holds without it.
    """

    kept: LeaseStore
    log: ActionLog

    def give(self, order: Action, notify: Callable[[Notice], None]) -> None:
        """Log an order; notify if only the lease topic has it.

        Raises:
            LeaseStoreError: If the lease topic can't be written.
        """
        self.kept.append([order])
        try:
            self.log.append([order])
        except TableError as error:
            notify(
                Notice(order.recorded_at_ms, "alert", f"the order is in the lease topic only, where it holds: {error}")
            )

    def left(self, principal: str | None) -> list[Lease]:
        """Return the leases that are still open.

        Raises:
            LeaseStoreError: If the lease topic can't be read.
        """
        actions = self.kept.read()
        # The lease topic has every open lease but those of earlier versions.
        with suppress(TableError):
            actions += self.log.read()
        leases = open_leases(actions).values()
        return [lease for lease in leases if principal in (None, lease.principal)]


def release(
    enforcer: Enforcer,
    orders: Orders,
    principal: str | None,
    hold_ms: int,
    *,
    clocks: Clocks,
    notify: Callable[[Notice], None],
    stop: threading.Event,
    report: Callable[[float, float], None] = lambda _done, _total: None,
) -> None:
    """End the throttle of a principal, or of all, and block new ones for a while.

    A running enforcer obeys the order at its next reconciliation. If none does, this process gets the lock and restores
    the quotas itself. Neither needs the tables.

    Args:
        enforcer: One that gets no decisions.
        orders: Takes the order.
        principal: Whom to release; None releases all.
        hold_ms: How long new leases are blocked.
        clocks: Wall clock and monotonic clock.
        notify: Called with each notice.
        stop: Set to give up.
        report: Called with throttles ended and in total.

    Raises:
        LeaseStoreError: If the order can't be written to the lease topic.
        EnforceError: If quotas are still not restored after a minute.
    """
    ordered_ms, give_up_at = clocks.wall_ms(), clocks.steady_ms() + _LIMIT_MS
    until_ms = ordered_ms + hold_ms
    why = "released by order" if principal else "all released by order"
    orders.give(Action(ordered_ms, "hold", principal, until_ms, why, enforcer="release"), notify)
    notify(Notice(ordered_ms, "held", why, principal or "everybody", until_ms=until_ms))
    left = orders.left(principal)
    total = len(left)
    while left:
        report(total - len(left), total)
        if stop.wait(_PAUSE_S) or clocks.steady_ms() > give_up_at:
            entities = ", ".join(str(lease.entity) for lease in left)
            msg = (
                f"not restored yet: {entities}. The order holds: check that the brokers answer, and repeat the command"
            )
            raise EnforceError(msg)
        # Ends what it can, with or without tables.
        with suppress(TableError, LeaseStoreError):
            enforcer.reconcile()
        left = orders.left(principal)
    notify(Notice(clocks.wall_ms(), "restored", "no lease is open", principal or "everybody"))

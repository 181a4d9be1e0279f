"""`pid-quota enforce --release…`: the kill switch. An order on the brokers, which any running enforcer obeys."""

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
    """Where orders are given, and what is left of the leases; neither is the enforcer's own.

    Attributes:
        kept: What the brokers keep.
        log: The table; the order stands without it, too.
    """

    kept: LeaseStore
    log: ActionLog

    def give(self, order: Action, say: Callable[[Notice], None]) -> None:
        """Give an order; says so if only the brokers have it.

        Raises:
            LeaseStoreError: If the brokers do not take it.
        """
        self.kept.append([order])
        try:
            self.log.append([order])
        except TableError as error:
            say(Notice(order.recorded_at_ms, "alert", f"the order is on the brokers only: {error}"))

    def left(self, principal: str | None) -> list[Lease]:
        """Return the leases that are still open.

        Raises:
            LeaseStoreError: If the brokers do not tell.
        """
        actions = self.kept.read()
        # The brokers keep every open lease but those of earlier versions.
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
    say: Callable[[Notice], None],
    stop: threading.Event,
    report: Callable[[float, float], None] = lambda _done, _total: None,
) -> None:
    """End the throttle of a principal, or of all, and keep new ones away for a while.

    An enforcer that runs obeys the order in its next turn. If none does, this process gets the lock and restores the
    quotas itself. Neither needs the tables.

    Args:
        enforcer: One that gets no decisions.
        orders: Takes the order.
        principal: Whom to release; None releases everybody.
        hold_ms: How long no new lease is taken.
        clocks: Tell the time.
        say: Takes the notices.
        stop: Gives up.
        report: Takes how many throttles are ended, and of how many.

    Raises:
        LeaseStoreError: If the brokers do not take the order.
        EnforceError: If quotas are still not restored after a minute.
    """
    ordered_ms, give_up_at = clocks.wall_ms(), clocks.steady_ms() + _LIMIT_MS
    until_ms = ordered_ms + hold_ms
    why = "released by order" if principal else "all released by order"
    orders.give(Action(ordered_ms, "hold", principal, until_ms, why, enforcer="release"), say)
    say(Notice(ordered_ms, "held", why, principal or "everybody", until_ms=until_ms))
    left = orders.left(principal)
    total = len(left)
    while left:
        report(total - len(left), total)
        if stop.wait(_PAUSE_S) or clocks.steady_ms() > give_up_at:
            entities = ", ".join(str(lease.entity) for lease in left)
            msg = f"not restored yet: {entities}. The order stands; is a broker reachable? Repeat the command to see"
            raise EnforceError(msg)
        # It ends what it can, with or without tables.
        with suppress(TableError, LeaseStoreError):
            enforcer.reconcile()
        left = orders.left(principal)
    say(Notice(clocks.wall_ms(), "restored", "no lease is open", principal or "everybody"))

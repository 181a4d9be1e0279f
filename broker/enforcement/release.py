"""The kill switch, `pid-quota enforce --release…`."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from broker.enforcement.levers.base import Lever, Stray
from broker.enforcement.model import (
    CANARY,
    Clocks,
    EnforcementRecord,
    Lease,
    LeverName,
    ReleaseOrder,
    open_leases,
    user_of,
)
from broker.enforcement.notices import Notice
from broker.enforcement.ports import ActionLog, LeaseStore
from broker.enforcement.reconcile import Enforcer
from broker.enforcement.steps import clear_strays
from broker.errors import EnforceError, LeaseStoreError
from tables.errors import TableError

_LIMIT_MS = 60_000
_PAUSE_S = 0.1
_MAX_NAMED = 10


@dataclass(frozen=True)
class Release:
    """A release of principals. `enforcer` reads no decisions. `report` gets the numbers of ended and of all leases."""

    enforcer: Enforcer
    levers: Mapping[LeverName, Lever]
    store: LeaseStore
    log: ActionLog
    clocks: Clocks
    notify: Callable[[Notice], None]
    report: Callable[[float, float], None] = lambda _done, _total: None

    def run(self, principal: str | None, pause_ms: int, stop: threading.Event) -> None:
        """End the throttle of a principal, or of all principals, and block new throttles for `pause_ms`.

        A running enforcer ends the leases at its next reconciliation. If no enforcer runs, this process takes the
        enforcer's lock and ends the leases. The tables are not needed. Leftover holds of ended leases are removed, too.

        Raises:
            LeaseStoreError: If the order can't be written to the lease topic.
            EnforceError: If leases are still open after a minute, or another setting still throttles the principal.
        """
        now_ms = self.clocks.now_ms()
        why = "released by order" if principal else "all released by order"
        order = ReleaseOrder(now_ms, principal, now_ms + pause_ms, why, enforcer="release")
        self._give(order)
        self.notify(Notice(now_ms, "released", why, principal or "everybody", until_ms=order.until_ms))
        self._wait(principal, stop)
        self._require_free(principal)
        self.notify(Notice(self.clocks.now_ms(), "restored", "no lease is open", principal or "everybody"))

    def _give(self, order: ReleaseOrder) -> None:
        self.store.append([order])
        try:
            self.log.append([order])
        except TableError as error:
            why = f"the order is in the lease topic only, where it holds: {error}"
            self.notify(Notice(order.recorded_at_ms, "alert", why))

    def _open_leases(self, principal: str | None) -> list[Lease]:
        records: list[EnforcementRecord] = [*self.store.read()]
        # The lease topic has every open lease, unless the topic was recreated.
        with suppress(TableError):
            records += self.log.read()
        return [lease for lease in open_leases(records).values() if principal in (None, lease.principal)]

    def _wait(self, principal: str | None, stop: threading.Event) -> None:
        give_up_at = self.clocks.steady_ms() + _LIMIT_MS
        left = self._open_leases(principal)
        total = len(left)
        while left:
            self.report(total - len(left), total)
            if stop.wait(_PAUSE_S) or self.clocks.steady_ms() > give_up_at:
                targets = ", ".join(str(lease.target) for lease in left)
                msg = (
                    f"not ended yet: {targets}. The order holds: check that the brokers answer, and repeat the command"
                )
                raise EnforceError(msg)
            # This ends leases even if the tables can't be read.
            with suppress(TableError, LeaseStoreError):
                self.enforcer.reconcile()
            left = self._open_leases(principal)

    def _require_free(self, principal: str | None) -> None:

        def counts(stray: Stray) -> bool:
            # Keep the canary's value. It slows nobody, and an enforcer that watches the value would conclude that a
            # reconciler removed it.
            user = stray.target.entity.user
            return user != CANARY if principal is None else user == user_of(principal)

        left, errors = clear_strays(self.levers, self._open_leases(None), self.clocks.now_ms(), counts)
        if left:
            named = "; ".join(f"{stray.why}: clear it with {stray.command}" for stray in left[:_MAX_NAMED])
            named += f"; and {len(left) - _MAX_NAMED} more" if len(left) > _MAX_NAMED else ""
            msg = f"no lease is open, but {principal or 'a principal'} is still throttled: {named}"
            raise EnforceError(msg)
        if errors:
            msg = (
                f"no lease is open, but {principal or 'a principal'} may still be throttled: {errors[0]}. "
                "The order holds: repeat the command"
            )
            raise EnforceError(msg)

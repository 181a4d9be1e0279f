"""`pid-quota enforce --release…`: the kill switch. An order in the table, which any running enforcer obeys."""

import threading
from collections.abc import Callable

from broker.enforcer import Enforcer
from broker.enforcer_notices import Notice
from broker.enforcer_ports import ActionLog
from broker.leases import Action, Lease, open_leases
from jobs.errors import EnforceError
from jobs.progress import Report, unheard

_LIMIT_MS = 60_000
_PAUSE_S = 0.1


def release(
    enforcer: Enforcer,
    actions: ActionLog,
    principal: str | None,
    hold_ms: int,
    *,
    clock_ms: Callable[[], int],
    say: Callable[[Notice], None],
    stop: threading.Event,
    report: Report = unheard,
) -> None:
    """End the throttle of a principal, or of all, and keep new ones away for a while.

    The order is written to `enforcement_actions`: an enforcer that runs restores the quotas in its next turn. If none
    does, this process gets the lock and restores them itself.

    Args:
        enforcer: One that gets no decisions.
        actions: The table, not the enforcer's own.
        principal: Whom to release; None releases everybody.
        hold_ms: How long no new lease is taken.
        clock_ms: The time, in milliseconds since the epoch.
        say: Takes the notices.
        stop: Gives up.
        report: Takes how many throttles are ended, and of how many.

    Raises:
        EnforceError: If quotas are still not restored after a minute.
    """
    ordered_ms = clock_ms()
    until_ms = ordered_ms + hold_ms
    why = "released by order" if principal else "all released by order"
    actions.append([Action(ordered_ms, "hold", principal, until_ms, why, enforcer="release")])
    say(Notice(ordered_ms, "held", why, principal or "everybody", until_ms=until_ms))
    left = _left(actions, principal)
    total = len(left)
    while left:
        report(total - len(left), total)
        if stop.wait(_PAUSE_S) or clock_ms() > ordered_ms + _LIMIT_MS:
            entities = ", ".join(str(lease.entity) for lease in left)
            msg = f"not restored yet: {entities}. The order stands; is a broker reachable? Repeat the command to see"
            raise EnforceError(msg)
        enforcer.turn()
        left = _left(actions, principal)
    say(Notice(clock_ms(), "restored", "no lease is open", principal or "everybody"))


def _left(actions: ActionLog, principal: str | None) -> list[Lease]:
    leases = open_leases(actions.read()).values()
    return [lease for lease in leases if principal in (None, lease.principal)]

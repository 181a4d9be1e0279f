"""Quickly checks whether a batch changes nothing. Most principals keep using the same PIDs."""

from quota.config import TICKS_PER_QUANTUM
from quota.limits import Limit
from state.codec import LedgerState
from state.events import Deployment, Events
from state.hashing import hash_pids


def changes_nothing(state: LedgerState, events: Events, limit: Limit, deployment: Deployment) -> bool:
    """Return whether a batch certainly changes nothing in a ledger; false if it may change something.

    The batch changes nothing if its quota is already in force, no throttle ends, no event is late, no event comes after
    the ledger's metrics interval or quantum, and the current quantum holds all PIDs.
    """
    if state.limit != limit:
        return False
    timeline, current = deployment.timeline, state.clock_tick // TICKS_PER_QUANTUM
    newest_tick = timeline.tick(max(events.timestamps_ms))
    if state.throttle.is_over(newest_tick, timeline):
        return False
    if newest_tick // TICKS_PER_QUANTUM > current or newest_tick // deployment.interval_ticks > state.interval.number:
        return False
    if not state.quanta or state.quanta[-1].number != current:
        return False
    oldest_tick = timeline.tick(min(events.timestamps_ms))
    if oldest_tick < state.clock_tick and deployment.is_late(oldest_tick, state.clock_tick):
        return False
    unseen = events.hashes or hash_pids(events.pids, deployment.salt)
    blooms = [layer.bloom for layer in reversed(state.quanta[-1].layers)]
    # In a flood, the last PID is probably unseen. Then the others need no look-up.
    if True not in [unseen[-1] in bloom for bloom in blooms]:
        return False
    for bloom in blooms:
        unseen = [pid_hash for pid_hash in unseen if pid_hash not in bloom]
        if not unseen:
            return True
    return False

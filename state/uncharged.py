"""Stores PIDs that take no token (late, corrected, learning, renewed, without a quota), up to one common cap."""

from state.memory import Memory
from state.quantum import Quantum
from state.refusals import NO_TICK, Refusals


class Uncharged:
    """Stores PIDs that take no token, up to the cap.

    A PID that is left out for lack of room must not be charged when it returns. So the current quantum is then marked
    as saturated. While a live quantum is saturated, no PID is charged or refused.
    """

    def __init__(self, memory: Memory, refusals: Refusals) -> None:
        """Prepare to store PIDs in a ledger's filter and to count the PIDs that are left out."""
        self._memory, self._seen, self._window = memory, memory.seen, memory.window
        self._refusals = refusals

    def store(self, pid_hash: int, quantum: int, current: int) -> bool:
        """Store an unseen PID if there is room for it.

        Args:
            pid_hash: Hash of the PID.
            quantum: The quantum that the event belongs to.
            current: The current quantum.

        Returns:
            False if the PID was left out. The PID is then counted.
        """
        is_stored = self._seen.store(pid_hash, quantum, self._max_bytes())
        if not is_stored:
            self._window.of(current).leave_out(pid_hash, has_quota=self._memory.limit.producer_ids_rate is not None)
            # The ledger is saturated now, so the rest of this tick refuses nothing.
            self._refusals.tick = NO_TICK
        return is_stored

    def renew(self, pid_hash: int, source: Quantum, quantum: int, current: int) -> None:
        """Write a known PID, which `source` holds, to a later quantum if there is room."""
        # `may_renew` can't limit renewals in an older quantum (of late events), because quanta before it may have
        # expired. There, only the cap is the limit.
        may_renew = quantum < current or self._seen.may_renew(quantum)
        if may_renew and not self._seen.renew(pid_hash, source, quantum, self._max_bytes()):
            # The PID stays known until `source` expires. `WindowCounts.advance` checks whether there are more such PIDs
            # than false positives explain.
            self._window.of(current).unrenewed.add(pid_hash)

    def _max_bytes(self) -> int:
        """Return the cap in bytes. It suffices for a quota's burst, its refill in the live quanta, and all renewals."""
        config, rate = self._memory.deployment.config, self._memory.limit.producer_ids_rate or 0
        pids = (self._memory.budget.burst() or 0) + rate * (1 + 1 / config.layer_count)
        return max(config.max_uncharged_bytes, self._seen.bytes_of(pids))

"""Stores PIDs that take no token (late, corrected, learning, renewed, without a quota), up to one common cap."""

from state.memory import Memory
from state.quantum import Quantum
from state.refusals import NO_TICK, Refusals


class Uncharged:
    """Stores PIDs that take no token, up to the cap.

    A PID that is left out for lack of room must not be charged when it returns. So it marks the quantum as saturated:
    while a live quantum is saturated, no PID is charged or refused.
    """

    def __init__(self, memory: Memory, refusals: Refusals) -> None:
        """Prepare to store PIDs in a ledger's filter and to count the PIDs that are left out."""
        self._memory, self._seen, self._window = memory, memory.seen, memory.window
        self._refusals = refusals

    def store(self, pid_hash: int, quantum: int, current: int) -> bool:
        """Store an unseen PID if there is room for it.

        Args:
            pid_hash: Its hash.
            quantum: The quantum that the event belongs to.
            current: The current quantum.

        Returns:
            False if the PID was left out. It is counted as left out.
        """
        is_stored = self._seen.store(pid_hash, quantum, self._max_bytes())
        if not is_stored:
            self._window.of(current).leave_out(pid_hash, has_quota=self._memory.limit.producer_ids_rate is not None)
            # The ledger is saturated now, so the rest of this tick refuses nothing.
            self._refusals.tick = NO_TICK
        return is_stored

    def renew(self, pid_hash: int, source: Quantum, quantum: int, current: int) -> None:
        """Write a known PID, which `source` holds, to a later quantum if there is room."""
        # Only the cap bounds late PIDs, because the quanta that hold them may have expired.
        may_renew = quantum < current or self._seen.may_renew(quantum)
        if may_renew and not self._seen.renew(pid_hash, source, quantum, self._max_bytes()):
            # The PID stays known until `source` expires. `WindowCounts.advance` checks whether such PIDs are more than
            # false positives.
            self._window.of(current).unrenewed.add(pid_hash)

    def _max_bytes(self) -> int:
        """Return the cap in bytes, enough for a quota's burst, its refill in the live quanta, and their renewals."""
        config, rate = self._memory.deployment.config, self._memory.limit.producer_ids_rate or 0
        pids = (self._memory.budget.burst() or 0) + rate * (1 + 1 / config.layer_count)
        return max(config.max_uncharged_bytes, self._seen.bytes_of(pids))

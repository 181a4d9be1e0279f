"""PIDs that take no token (late, corrected, learning, renewed, without a quota), stored up to one common cap."""

from state.memory import Memory
from state.quantum import Quantum
from state.refusals import NO_TICK, Refusals


class Uncharged:
    """Stores PIDs that take no token, up to the cap.

    A PID that is left out must not be charged when it comes again, so it saturates the quantum: while a live quantum is
    saturated, nothing is charged or refused.
    """

    def __init__(self, memory: Memory, refusals: Refusals) -> None:
        """Write to a ledger's filter, and count what is left out in its window."""
        self._memory, self._seen, self._window = memory, memory.seen, memory.window
        self._refusals = refusals

    def store(self, pid_hash: int, quantum: int, current: int) -> bool:
        """Store an unseen PID if there is room for it.

        Args:
            pid_hash: Its hash.
            quantum: To which it belongs.
            current: The current quantum.

        Returns:
            False if it was left out; it is counted then.
        """
        is_stored = self._seen.store(pid_hash, quantum, self._max_bytes())
        if not is_stored:
            self._window.of(current).leave_out(pid_hash, has_quota=self._memory.limit.producer_ids_rate is not None)
            # From here on this tick refuses nothing.
            self._refusals.tick = NO_TICK
        return is_stored

    def renew(self, pid_hash: int, source: Quantum, quantum: int, current: int) -> None:
        """Write a known PID, which `source` holds, to a later quantum if there is room for it."""
        # Late PIDs are bounded by the cap alone: the quanta they are renewed from may have expired.
        may_renew = quantum < current or self._seen.may_renew(quantum)
        if may_renew and not self._seen.renew(pid_hash, source, quantum, self._max_bytes()):
            # Known for now. The end of the quantum shows whether these are more than false positives.
            self._window.of(current).unrenewed.add(pid_hash)

    def _max_bytes(self) -> int:
        """Return the cap: at least the bytes of a quota's burst, its refill in the live quanta, and their renewals."""
        config, rate = self._memory.deployment.config, self._memory.limit.producer_ids_rate or 0
        pids = (self._memory.budget.burst() or 0) + rate * (1 + 1 / config.layer_count)
        return max(config.max_uncharged_bytes, self._seen.bytes_of(pids))

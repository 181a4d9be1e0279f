"""Stores PIDs that take no token, up to a maximum size of the filter."""

from state.memory import Memory
from state.quantum import Quantum
from state.refusals import NO_TICK, Refusals


class Uncharged:
    """Stores PIDs that take no token.

    These are late and renewed PIDs, PIDs that may be old while the plugin or the stream learns, and all PIDs without a
    quota.

    If the filter has no room for an unseen PID, the PID must not take a token later. So the current quantum is marked
    as saturated. While a live quantum is saturated, unseen PIDs take no token and are not refused.
    """

    def __init__(self, memory: Memory, refusals: Refusals) -> None:
        self._memory, self._seen, self._window = memory, memory.seen, memory.window
        self._refusals = refusals

    def store(self, pid_hash: int, quantum: int, current: int) -> bool:
        """Store an unseen PID if there is room. Otherwise, count the PID in the quantum `current`.

        Returns:
            Whether the PID was stored.
        """
        is_stored = self._seen.store(pid_hash, quantum, self._max_bytes())
        if not is_stored:
            self._window.of(current).leave_out(pid_hash, has_quota=self._memory.limit.producer_ids_rate is not None)
            # The ledger is saturated now, so the rest of this tick refuses nothing.
            self._refusals.tick = NO_TICK
        return is_stored

    def renew(self, pid_hash: int, source: Quantum, quantum: int, current: int) -> None:
        """Also write a known PID of the quantum `source` to a later quantum, if there is room."""
        # Quanta before a late event's quantum may have expired, so `may_renew` can't count their entries. Only
        # `_max_bytes` limits renewals in that quantum.
        may_renew = quantum < current or self._seen.may_renew(quantum)
        if may_renew and not self._seen.renew(pid_hash, source, quantum, self._max_bytes()):
            # The PID stays known until `source` expires. `WindowCounts.advance` checks whether there are more such PIDs
            # than false positives explain.
            self._window.of(current).unrenewed.add(pid_hash)

    def _max_bytes(self) -> int:
        """Return the filter's maximum size. The PIDs that take tokens, and their renewals, always fit."""
        config, budget = self._memory.deployment.config, self._memory.budget
        rate = self._memory.limit.producer_ids_rate or 0
        pids = (budget.burst() or 0) + budget.debt() + rate * (1 + 1 / config.layer_count)
        return max(config.max_uncharged_bytes, self._seen.bytes_of(pids))

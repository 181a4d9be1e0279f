"""A sample of the PIDs of one principal: when each was first and last used.

The sample tells a producer per message from a leak, a deploy and a restart loop. It has at most `MAX_PIDS` entries. In
a flood it keeps one PID in 2, 4, 8, ..., chosen by hash, so a flood neither makes it grow nor multiplies its writes.

A PID's last use is noted when the time in use has grown by half, and once in each quantum. So a PID in steady use
changes the stored state hardly more often than the filter does.
"""

from typing import Any

import msgspec

from quota.config import TICKS_PER_QUANTUM
from state.events import LEARNING, Deployment, Events
from state.hashing import hash_pids

MAX_PIDS = 64
RECENT_QUANTA = 4
"""If more than half of a full sample is younger than this, the sample is thinned. Otherwise the oldest entry goes."""
NEVER_MS = 2**63
RECOVERY = 2
"""Levels by which a sample gets denser in each quantum with few new PIDs."""


class PidUse(msgspec.Struct, frozen=True, array_like=True):
    """The uses of a PID, in ms since the epoch.

    Attributes:
        first_ms: Time of the first use; 0 if the PID may be older than the plugin's watch.
        last_ms: Start of the tick of the last noted use, or the first use.
    """

    client_id: str
    first_ms: int
    last_ms: int


class PidUses(msgspec.Struct, frozen=True, array_like=True):
    """The sample of one principal.

    Attributes:
        level: The newest entries are the PIDs whose hash is divisible by 2**level.
        quantum: Quantum in which the sample was last thinned, or made denser.
        is_told: Whether a metrics row has this sample.
    """

    level: int = 0
    quantum: int = 0
    pids: dict[int, PidUse] = msgspec.field(default_factory=dict)
    is_told: bool = True

    def row(self) -> dict[str, Any]:
        """Return the sample as columns of the table `producer_id_metrics`."""
        uses = (
            f"{pid} {use.first_ms} {use.last_ms} {use.client_id.replace(';', ',')}" for pid, use in self.pids.items()
        )
        return {"pid_uses": ";".join(uses), "pid_uses_one_in": 1 << self.level}


NO_USES = PidUses()


def observed(uses: PidUses, events: Events, deployment: Deployment) -> PidUses:
    """Return the sample after some events in offset order; `uses` itself if nothing changes.

    `events` must have hashes. Repeats of a PID within a tick change nothing.
    """
    sample = _Sample(uses, deployment)
    for pid, pid_hash, at_ms, (client_id, _), kind in zip(
        events.pids, events.hashes, events.timestamps_ms, events.clients, events.kinds, strict=True
    ):
        if at_ms >= sample.recovers_ms:
            sample.recover(at_ms)
        if not pid_hash & sample.rest:
            sample.note(pid, at_ms, client_id, is_new=kind != LEARNING)
    return sample.stored()


class _Sample:
    """A sample that changes."""

    def __init__(self, uses: PidUses, deployment: Deployment) -> None:
        self._before, self._deployment, self._timeline = uses, deployment, deployment.timeline
        self._level, self._quantum, self._pids = uses.level, uses.quantum, uses.pids
        self._set_level(uses.level)

    def stored(self) -> PidUses:
        if self._pids is self._before.pids and self._quantum == self._before.quantum:
            return self._before
        return PidUses(self._level, self._quantum, self._pids, is_told=False)

    def recover(self, at_ms: int) -> None:
        """Make the sample denser again in a new quantum after a flood."""
        before, self._quantum = self._quantum, self._quantum_of(at_ms)
        if len(self._recent(at_ms)) < MAX_PIDS // 4:
            self._set_level(max(0, self._level - RECOVERY * (self._quantum - before)))
        else:
            self._set_level(self._level)

    def note(self, pid: int, at_ms: int, client_id: str, *, is_new: bool) -> None:
        known = self._pids.get(pid)
        if known is not None:
            if self._is_due(known, at_ms):
                self._put(pid, PidUse(known.client_id, known.first_ms, self._tick_ms(at_ms)))
            return
        self._put(pid, PidUse(client_id, at_ms if is_new else 0, at_ms))
        if len(self._pids) > MAX_PIDS:
            self._shrink(at_ms)

    def _put(self, pid: int, use: PidUse) -> None:
        if self._pids is self._before.pids:
            self._pids = dict(self._pids)
        self._pids[pid] = use

    def _tick_ms(self, at_ms: int) -> int:
        return self._timeline.tick_start_ms(self._timeline.tick(at_ms))

    def _is_due(self, known: PidUse, at_ms: int) -> bool:
        tick, last_tick = self._timeline.tick(at_ms), self._timeline.tick(known.last_ms)
        if tick <= last_tick:
            return False
        is_longer = 2 * (at_ms - known.last_ms) >= known.last_ms - known.first_ms
        return is_longer or tick // TICKS_PER_QUANTUM > last_tick // TICKS_PER_QUANTUM

    def _shrink(self, at_ms: int) -> None:
        if len(self._recent(at_ms)) <= MAX_PIDS // 2:
            del self._pids[min(self._pids, key=lambda pid: self._pids[pid].first_ms)]
            return
        self._quantum = self._quantum_of(at_ms)
        while len(self._pids) > MAX_PIDS:
            self._set_level(self._level + 1)
            hashes = hash_pids(list(self._pids), self._deployment.salt)
            self._pids = {
                pid: use for (pid, use), each in zip(self._pids.items(), hashes, strict=True) if not each & self.rest
            }

    def _recent(self, at_ms: int) -> list[int]:
        since_ms = at_ms - RECENT_QUANTA * self._timeline.quantum_ms
        return [pid for pid, use in self._pids.items() if use.first_ms > since_ms]

    def _quantum_of(self, at_ms: int) -> int:
        return self._timeline.quantum(self._timeline.tick(at_ms))

    def _set_level(self, level: int) -> None:
        self._level = level
        # A PID belongs to the sample if its hash has none of these bits.
        self.rest = (1 << level) - 1
        next_tick = (self._quantum + 1) * TICKS_PER_QUANTUM
        self.recovers_ms = self._timeline.tick_start_ms(next_tick) if level else NEVER_MS

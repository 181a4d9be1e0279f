"""Counts per quantum and per metrics interval: admissions, refusals, throttle time."""

from collections.abc import Iterable

import msgspec

from quota.config import QuotaConfig
from quota.timeline import Timeline
from state.sketch import DistinctPids, estimate_union


class QuantumCounts(msgspec.Struct, array_like=True):
    """Counts of one quantum.

    Attributes:
        throttled_ticks: Ticks in which a PID was refused.
        throttle_ms_sum: Sum of their throttle times in milliseconds.
        last_throttled_tick: The latest of them.
        saturated: Whether PIDs were left out, for lack of room, that must not be charged when they come again.
        is_excusable: Whether those that were left out in a saturated quantum all had no quota then.
        unstored: The unseen PIDs that were refused or left out.
        unrenewed: The known PIDs that could not be written again for lack of room.
    """

    quantum: int
    admitted: int = 0
    throttled_ticks: int = 0
    throttle_ms_sum: int = 0
    last_throttled_tick: int = -1
    saturated: bool = False
    is_excusable: bool = False
    unstored: DistinctPids = msgspec.field(default_factory=DistinctPids)
    unrenewed: DistinctPids = msgspec.field(default_factory=DistinctPids)

    def leave_out(self, pid_hash: int, *, has_quota: bool) -> None:
        """Count a PID that takes no token and has no room."""
        self.unstored.add(pid_hash)
        self.is_excusable = not has_quota and (self.is_excusable or not self.saturated)
        self.saturated = True

    def count_throttle(self, tick: int, throttle_time_ms: int) -> None:
        """Count a tick in which a PID was refused, once: its throttle time does not change within the tick."""
        if tick > self.last_throttled_tick:
            self.last_throttled_tick = tick
            self.throttled_ticks += 1
            self.throttle_ms_sum += throttle_time_ms


class IntervalCounts(msgspec.Struct, array_like=True):
    """Counts of one metrics interval.

    Attributes:
        number: Of the interval; -1 before the first event.
        admitted: New PIDs admitted in it.
    """

    number: int = -1
    admitted: int = 0
    refused: DistinctPids = msgspec.field(default_factory=DistinctPids)


class WindowCounts:
    """The counts of the live quanta, oldest first."""

    def __init__(self, counts: list[QuantumCounts], config: QuotaConfig) -> None:
        self._counts = counts
        self._layer_count = config.layer_count
        self._false_positive_rate = config.false_positive_rate

    def of(self, quantum: int) -> QuantumCounts:
        """Return the counts of the current quantum, which may be a new one."""
        if not self._counts or self._counts[-1].quantum < quantum:
            self._counts.append(QuantumCounts(quantum))
        return self._counts[-1]

    def live(self, quantum: int) -> list[QuantumCounts]:
        """Return the counts that are live when a quantum is the current one."""
        oldest = quantum - self._layer_count
        return [each for each in self._counts if each.quantum >= oldest]

    def advance(self, quantum: int) -> None:
        """Drop the counts of quanta that expired, after the quantum that ends."""
        if self._counts and self._leaves_gap(self._counts[-1]):
            self._counts[-1].saturated, self._counts[-1].is_excusable = True, False
        self._counts[:] = self.live(quantum)

    def _leaves_gap(self, ended: QuantumCounts) -> bool:
        """Say whether PIDs that must not be charged were left out in a quantum that has ended.

        Known PIDs were if they are more than false positives of the unseen ones. And a principal that is beyond the cap
        stays there as long as most of what is left out comes again: a flood brings other PIDs in each quantum.
        """
        left_out = ended.unstored.estimate()
        if ended.unrenewed.estimate() > 10 * self._false_positive_rate * (left_out + ended.admitted):
            return True
        if not left_out or not self.is_saturated():
            return False
        before = [each.unstored for each in self._counts[:-1]]
        first_seen = estimate_union([*before, ended.unstored]) - estimate_union(before)
        return first_seen <= left_out / 2

    def is_saturated(self) -> bool:
        """Return whether PIDs were left out in a live quantum: an unseen PID may be one of them."""
        return True in [each.saturated for each in self._counts]

    def excuse_nobody(self) -> None:
        """Clear the saturation by PIDs without a quota: from now on, an unseen PID is new."""
        for each in self._counts:
            each.saturated = each.saturated and not each.is_excusable


def throttle_time_avg_ms(counts: Iterable[QuantumCounts]) -> float | None:
    """Return the KIP's `throttle-time`: the mean over the ticks that were throttled, or None without one."""
    ticks = throttle_ms_sum = 0
    for each in counts:
        ticks += each.throttled_ticks
        throttle_ms_sum += each.throttle_ms_sum
    return throttle_ms_sum / ticks if ticks else None


def new_pids_in_window(counts: Iterable[QuantumCounts], now_ms: int, window_ms: int, timeline: Timeline) -> int:
    """Return admitted plus distinct unstored PIDs of the last window.

    The quantum in which the window begins counts for the part of it that the window covers.
    """
    start_ms = now_ms - window_ms
    inside, partial, share = [], [], 0.0
    for each in counts:
        begins_ms = each.quantum * timeline.quantum_ms
        if begins_ms >= start_ms:
            inside.append(each)
        elif begins_ms + timeline.quantum_ms > start_ms:
            partial.append(each)
            share = (begins_ms + timeline.quantum_ms - start_ms) / timeline.quantum_ms
    whole = _new_pids(inside)
    if not partial:
        return round(whole)
    return round(whole + share * (_new_pids(inside + partial) - whole))


def _new_pids(counts: list[QuantumCounts]) -> float:
    admitted, sketches = 0, []
    for each in counts:
        admitted += each.admitted
        if each.unstored:
            sketches.append(each.unstored)
    return admitted + (estimate_union(sketches) if sketches else 0.0)

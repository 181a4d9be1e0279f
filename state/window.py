"""What is counted per quantum beside the filter: admissions, refusals, throttle time."""

from collections.abc import Iterable

import msgspec

from quota.timeline import Timeline
from state.sketch import DistinctPids, estimate_union


class QuantumCounts(msgspec.Struct, array_like=True):
    """Counts of one quantum.

    Attributes:
        quantum: Number of the quantum.
        admitted: New PIDs admitted.
        throttled_ticks: Ticks in which a PID was refused.
        throttle_ms_sum: Sum of their throttle times in milliseconds.
        last_throttled_tick: The latest of them.
        saturated: Whether PIDs were left out because the filter had grown to its cap.
        unstored: Sketch of the PIDs that were refused or left out (`DistinctPids.to_bytes`).
    """

    quantum: int
    admitted: int = 0
    throttled_ticks: int = 0
    throttle_ms_sum: int = 0
    last_throttled_tick: int = -1
    saturated: bool = False
    unstored: bytes = b""

    def count_throttle(self, tick: int, throttle_time_ms: int) -> bool:
        """Count a tick in which a PID was refused, once: its throttle time does not change within the tick."""
        if tick <= self.last_throttled_tick:
            return False
        self.last_throttled_tick = tick
        self.throttled_ticks += 1
        self.throttle_ms_sum += throttle_time_ms
        return True


class UnstoredPids:
    """The sketch of one quantum, open for a flood: its bytes are only written when they are asked for."""

    __slots__ = ("_counts", "_sketch")

    def __init__(self, counts: QuantumCounts) -> None:
        self._counts = counts
        self._sketch = DistinctPids(counts.unstored)

    def belongs_to(self, counts: QuantumCounts) -> bool:
        """Say whether this is the sketch of these counts."""
        return self._counts is counts

    def add(self, pid: int) -> float:
        """Count a PID that is not stored; return its weight (see `DistinctPids.add`)."""
        return self._sketch.add(pid)

    def close(self) -> None:
        """Write the sketch to its counts."""
        self._counts.unstored = self._sketch.to_bytes()


def throttle_time_avg_ms(counts: Iterable[QuantumCounts]) -> float | None:
    """Return the KIP's `throttle-time`: the mean over the ticks that were throttled, or None without one."""
    live = list(counts)
    ticks = sum(each.throttled_ticks for each in live)
    return sum(each.throttle_ms_sum for each in live) / ticks if ticks else None


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
    return round(whole + share * (_new_pids(inside + partial) - whole))


def _new_pids(counts: list[QuantumCounts]) -> float:
    sketches = [DistinctPids(each.unstored) for each in counts if each.unstored]
    unstored = estimate_union(sketches) if sketches else 0.0
    return sum(each.admitted for each in counts) + unstored

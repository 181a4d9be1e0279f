"""Counts per quantum and per metrics interval: admissions, refusals, throttle time."""

from collections.abc import Iterable

import msgspec

from quota.config import QuotaConfig
from quota.timeline import Timeline
from state.sketch import DistinctPids, estimate_union


class QuantumCounts(msgspec.Struct, array_like=True):
    """Counts of one quantum.

    Attributes:
        throttled_ticks: Number of ticks in which a PID was refused.
        throttle_ms_sum: Sum of the throttle times of these ticks, in milliseconds.
        saturated: Whether the filter had no room for some PIDs. Unseen PIDs then take no token.
        is_excusable: Whether the filter ran out of room only while the principal had no quota.
        unstored: Unseen PIDs that were refused, or that the filter had no room for.
        unrenewed: Known PIDs that could not be copied to this quantum for lack of room.
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
        """Count an unseen PID that the filter has no room for."""
        self.unstored.add(pid_hash)
        self.is_excusable = not has_quota and (self.is_excusable or not self.saturated)
        self.saturated = True

    def count_throttle(self, tick: int, throttle_time_ms: int) -> None:
        """Count a tick in which a PID was refused. A second call in the same tick has no effect."""
        if tick > self.last_throttled_tick:
            self.last_throttled_tick = tick
            self.throttled_ticks += 1
            self.throttle_ms_sum += throttle_time_ms


class IntervalCounts(msgspec.Struct, array_like=True):
    """Counts of one metrics interval.

    Attributes:
        number: Number of the interval; -1 before the first event.
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
        """Return the current quantum's counts. Create the counts if they are missing."""
        if not self._counts or self._counts[-1].quantum < quantum:
            self._counts.append(QuantumCounts(quantum))
        return self._counts[-1]

    def live(self, quantum: int) -> list[QuantumCounts]:
        """Return the counts of the quanta that are live when `quantum` is current."""
        oldest = quantum - self._layer_count
        return [each for each in self._counts if each.quantum >= oldest]

    def advance(self, quantum: int) -> None:
        """Move to a later quantum. Drop expired counts. Mark the ended quantum as saturated if it lacks known PIDs."""
        if self._counts and self._leaves_gap(self._counts[-1]):
            self._counts[-1].saturated, self._counts[-1].is_excusable = True, False
        self._counts[:] = self.live(quantum)

    def _leaves_gap(self, ended: QuantumCounts) -> bool:
        """Return whether an ended quantum must be marked as saturated.

        The quantum lacks known PIDs if more PIDs are unrenewed than false positives explain. A saturated principal
        stays saturated while at least half of the unstored PIDs were also unstored before. A flood has different PIDs
        in each quantum.
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
        """Return whether a live quantum is saturated."""
        return True in [each.saturated for each in self._counts]

    def excuse_nobody(self) -> None:
        """Clear the saturation that arose without a quota, so that unseen PIDs take tokens again."""
        for each in self._counts:
            each.saturated = each.saturated and not each.is_excusable


def throttle_time_avg_ms(counts: Iterable[QuantumCounts]) -> float | None:
    """Return the KIP's `throttle-time`: the mean over ticks with a refused PID; None without such ticks."""
    ticks = throttle_ms_sum = 0
    for each in counts:
        ticks += each.throttled_ticks
        throttle_ms_sum += each.throttle_ms_sum
    return throttle_ms_sum / ticks if ticks else None


def new_pids_in_window(counts: Iterable[QuantumCounts], now_ms: int, window_ms: int, timeline: Timeline) -> int:
    """Return the number of new PIDs in the last window: admitted PIDs, and distinct unstored PIDs.

    If the window covers only a part of its first quantum, the same share of that quantum's PIDs counts.
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

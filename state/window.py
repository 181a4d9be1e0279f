"""Counts per quantum and per metrics interval: admissions, refusals, throttle time."""

from collections.abc import Sequence

import msgspec

from quota.config import QuotaConfig
from quota.timeline import Timeline
from state.sketch import DistinctPids, estimate_union


class QuantumCounts(msgspec.Struct, array_like=True):
    """Counts of one quantum.

    Attributes:
        throttled_ticks: Number of ticks in which a PID was refused.
        throttle_ms_sum: Sum of the throttle times of these ticks, in milliseconds. The throttle time of a tick is the
            time until the bucket recovers, at the tick's first refused PID.
        saturated: Whether the filter had no room for some PIDs. Unseen PIDs then take no token.
        is_excusable: Whether the filter ran out of room only while the principal had no quota.
        owed_first: Number of owed PIDs before any live quantum had a PID in its `not_admitted`. These PIDs are counted
            exactly, and are not in `not_admitted`.
        not_admitted: The other unseen PIDs that were refused, and those that the filter had no room for.
        unrefreshed: Known PIDs that could not be copied to this quantum for lack of room.
    """

    quantum: int
    admitted: int = 0
    owed_first: int = 0
    throttled_ticks: int = 0
    throttle_ms_sum: int = 0
    last_throttled_tick: int = -1
    saturated: bool = False
    is_excusable: bool = False
    not_admitted: DistinctPids = msgspec.field(default_factory=DistinctPids)
    unrefreshed: DistinctPids = msgspec.field(default_factory=DistinctPids)

    def leave_out(self, pid_hash: int, *, has_quota: bool) -> None:
        """Count an unseen PID that the filter has no room for."""
        self.not_admitted.add(pid_hash)
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
        owed: Number of refused PIDs that took a token.
        owed_first: Number of owed PIDs that came before all PIDs in `refused`, and are not in `refused`.
        refused: The other refused PIDs.
    """

    number: int = -1
    admitted: int = 0
    owed: int = 0
    owed_first: int = 0
    refused: DistinctPids = msgspec.field(default_factory=DistinctPids)

    def count_owed(self, pid_hash: int) -> None:
        """Count a refused PID that took a token. The count is exact while all refused PIDs took one."""
        self.owed += 1
        if self.refused:
            self.refused.add(pid_hash)
        else:
            self.owed_first += 1

    def refused_pids(self) -> int:
        """Return the number of distinct refused PIDs."""
        return max(self.owed, self.owed_first + round(self.refused.estimate()))


class WindowCounts:
    """The counts of the live quanta, oldest first."""

    def __init__(self, counts: list[QuantumCounts], config: QuotaConfig) -> None:
        self._counts = counts
        self._layer_count = config.layer_count
        self._false_positive_rate = config.false_positive_rate

    def open(self, quantum: int) -> QuantumCounts:
        """Return the current quantum's counts. Create the counts if they are missing."""
        if not self._counts or self._counts[-1].quantum < quantum:
            self._counts.append(QuantumCounts(quantum))
        return self._counts[-1]

    def newest(self) -> QuantumCounts:
        """Return the counts that `open` returned last."""
        return self._counts[-1]

    def count_owed(self, pid_hash: int, quantum: int) -> None:
        """Count a refused PID that took a token. The count is exact while all refused PIDs took one."""
        counts = self.open(quantum)
        # The PID is known now, so no live quantum refuses the PID again. But one may have refused the PID before.
        if any(each.not_admitted for each in self._counts):
            counts.not_admitted.add(pid_hash)
        else:
            counts.owed_first += 1

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

        The quantum lacks known PIDs if more PIDs are unrefreshed than false positives explain. A saturated principal
        stays saturated while at least half of the PIDs that were not admitted were not admitted before, either. A flood
        has different PIDs in each quantum.
        """
        left_out = ended.not_admitted.estimate()
        unseen = left_out + ended.owed_first + ended.admitted
        if ended.unrefreshed.estimate() > 10 * self._false_positive_rate * unseen:
            return True
        if not left_out or not self.is_saturated():
            return False
        before = [each.not_admitted for each in self._counts[:-1]]
        first_seen = estimate_union([*before, ended.not_admitted]) - estimate_union(before)
        return first_seen <= left_out / 2

    def is_saturated(self) -> bool:
        """Return whether a live quantum is saturated."""
        return True in [each.saturated for each in self._counts]

    def drop_excuses(self) -> None:
        """Clear the saturation that arose without a quota, so that unseen PIDs take tokens again."""
        for each in self._counts:
            each.saturated = each.saturated and not each.is_excusable


def throttle_time_avg_ms(counts: Sequence[QuantumCounts]) -> float | None:
    """Return the KIP's `throttle-time`: the mean over ticks with a refused PID; None without such ticks."""
    ticks = sum(each.throttled_ticks for each in counts)
    return sum(each.throttle_ms_sum for each in counts) / ticks if ticks else None


def new_pids_in_window(counts: Sequence[QuantumCounts], now_ms: int, window_ms: int, timeline: Timeline) -> int:
    """Return the number of new PIDs in the last window: admitted PIDs, and distinct PIDs that were not admitted.

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
    exact = sum(each.admitted + each.owed_first for each in counts)
    sketches = [each.not_admitted for each in counts if each.not_admitted]
    return exact + (estimate_union(sketches) if sketches else 0.0)

"""A slow, obvious twin of the ledger: sets, lists and fractions instead of filters, sketches and integers.

It follows the rules as they are written down (ARCHITECTURE.md and KIP-936), with the default configuration, and shares
no code with what it checks.
"""

from dataclasses import dataclass, field
from fractions import Fraction

TICK_MS = 10_000
QUANTUM_MS = 900_000
WINDOW_MS = 3_600_000
INTERVAL_MS = 60_000
GRACE_MS = 300_000
MIN_THROTTLE_MS = 60_000
LAYERS = 4
SAMPLES = 11


@dataclass
class Said:
    """A decision, as far as the twin has an opinion."""

    action: str
    decided_at_ms: int
    throttled_until_ms: int
    throttle_time_ms: int
    tokens: Fraction | None
    rate: Fraction


@dataclass
class Twin:
    """One principal."""

    learn_until_ms: int = 0
    clock_ms: int = 0
    interval: int = 0
    quota: Fraction | None = None
    copies: dict[int, set[int]] = field(default_factory=dict)
    tokens: Fraction | None = None
    refilled_ms: int = 0
    admissions: list[int] = field(default_factory=list)
    admitted: int = 0
    refused: list[tuple[int, int]] = field(default_factory=list)
    late: int = 0
    episode: tuple[int, int] | None = None
    said: list[Said] = field(default_factory=list)

    def event(self, pid: int, timestamp_ms: int, correction: bool, quota: Fraction | None) -> None:
        tick_ms = timestamp_ms // TICK_MS * TICK_MS
        if tick_ms // QUANTUM_MS > self.clock_ms // QUANTUM_MS:
            self.clock_ms = tick_ms
        self.interval = max(self.interval, tick_ms // INTERVAL_MS)
        # A quota holds from the first event of its batch on: what ended before ended under the one before.
        self._release(tick_ms, self.quota)
        if quota != self.quota:
            self._settle(max(tick_ms, self.clock_ms))
        self.quota = quota
        if tick_ms < (self.clock_ms - GRACE_MS) // TICK_MS * TICK_MS:
            self._late(pid, tick_ms)
            return
        now_ms = max(tick_ms, self.clock_ms)
        newest = self._newest_copy(pid)
        if newest == now_ms // QUANTUM_MS:
            return
        self.clock_ms = now_ms
        if newest is not None or correction or now_ms < self.learn_until_ms:
            self._remember(pid, now_ms)
        elif quota is None or self._take(now_ms, quota):
            self._remember(pid, now_ms)
            self.admissions.append(max(timestamp_ms, now_ms))
            self.admitted += 1
        else:
            self._refuse(pid, timestamp_ms, now_ms, quota)

    def tokens_at(self, now_ms: int, quota: Fraction) -> Fraction:
        if self.tokens is None:
            return quota
        gained = quota * max(0, now_ms - self.refilled_ms) / WINDOW_MS
        return min(quota, self.tokens + gained)

    def active(self) -> int:
        return sum(self._newest_copy(pid) is not None for pid in self.copies)

    def rate_at(self, now_ms: int) -> Fraction:
        samples: list[list[int]] = []
        for admission in self.admissions:
            if not samples or admission - samples[-1][0] >= WINDOW_MS:
                samples.append([])
            samples[-1].append(admission)
        samples = [each for each in samples[-SAMPLES - 1 :] if now_ms - each[-1] < SAMPLES * WINDOW_MS]
        if not samples:
            return Fraction(0)
        elapsed = now_ms - samples[0][0]
        # Java cuts a fraction off: a sample that begins after the time that is asked for is no window old.
        elapsed += max(0, SAMPLES - 1 - int(Fraction(elapsed, WINDOW_MS))) * WINDOW_MS
        return Fraction(sum(len(each) for each in samples) * WINDOW_MS, max(1, elapsed))

    def _newest_copy(self, pid: int) -> int | None:
        oldest_live = self.clock_ms // QUANTUM_MS - LAYERS
        return max((quantum for quantum in self.copies.get(pid, ()) if quantum >= oldest_live), default=None)

    def _remember(self, pid: int, now_ms: int) -> None:
        self.copies.setdefault(pid, set()).add(now_ms // QUANTUM_MS)

    def _late(self, pid: int, tick_ms: int) -> None:
        self.late += 1
        quantum, newest = tick_ms // QUANTUM_MS, self._newest_copy(pid)
        if quantum >= self.clock_ms // QUANTUM_MS - LAYERS and (newest is None or newest < quantum):
            self._remember(pid, tick_ms)

    def _settle(self, now_ms: int) -> None:
        if self.quota is not None and self.tokens is not None:
            self.tokens = self.tokens_at(now_ms, self.quota)
            self.refilled_ms = max(now_ms, self.refilled_ms)

    def _take(self, now_ms: int, quota: Fraction) -> bool:
        self.tokens = self.tokens_at(now_ms, quota)
        self.refilled_ms = max(now_ms, self.refilled_ms)
        if self.tokens < 0:
            return False
        self.tokens -= 1
        return True

    def _refuse(self, pid: int, timestamp_ms: int, now_ms: int, quota: Fraction) -> None:
        self.refused.append((self.interval, pid))
        decided_ms = max(timestamp_ms, now_ms)
        if self.episode and now_ms - self.episode[0] // TICK_MS * TICK_MS < MIN_THROTTLE_MS:
            return
        tokens = self.tokens_at(now_ms, quota)
        throttle_ms = int(-tokens / quota * WINDOW_MS + Fraction(1, 2))
        self.episode = (decided_ms, decided_ms + max(throttle_ms, MIN_THROTTLE_MS))
        self.said.append(Said("THROTTLE", decided_ms, self.episode[1], throttle_ms, tokens, self.rate_at(decided_ms)))

    def _release(self, tick_ms: int, quota: Fraction | None) -> None:
        if self.episode and tick_ms > self.episode[1]:
            until_ms = self.episode[1]
            tokens = None if quota is None else self.tokens_at(until_ms // TICK_MS * TICK_MS, quota)
            self.said.append(Said("RELEASE", until_ms, until_ms, 0, tokens, self.rate_at(until_ms)))
            self.episode = None

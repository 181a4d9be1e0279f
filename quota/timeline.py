"""Divides event time into quanta and ticks, which are aligned to the epoch."""

from dataclasses import dataclass

from quota.config import TICKS_PER_QUANTUM


@dataclass(frozen=True)
class Timeline:
    """Turns milliseconds since the epoch into tick numbers and back.

    Each quantum has exactly `TICKS_PER_QUANTUM` ticks, so a tick never belongs to two quanta.

    Examples:
        >>> line = Timeline(quantum_ms=900_000)
        >>> line.tick(905_000), line.tick_start_ms(90), line.quantum(90)
        (90, 900000, 1)
    """

    quantum_ms: int

    def tick(self, timestamp_ms: int) -> int:
        """Return the tick that contains a timestamp."""
        quantum, rest = divmod(timestamp_ms, self.quantum_ms)
        return quantum * TICKS_PER_QUANTUM + rest * TICKS_PER_QUANTUM // self.quantum_ms

    def tick_start_ms(self, tick: int) -> int:
        """Return the first millisecond of a tick."""
        quantum, rest = divmod(tick, TICKS_PER_QUANTUM)
        return quantum * self.quantum_ms - (-rest * self.quantum_ms // TICKS_PER_QUANTUM)

    def quantum(self, tick: int) -> int:
        """Return the quantum that contains a tick."""
        return tick // TICKS_PER_QUANTUM

    def ticks_in(self, duration_ms: float) -> int:
        """Round a duration to a whole number of ticks, at least one."""
        return max(1, round(duration_ms * TICKS_PER_QUANTUM / self.quantum_ms))

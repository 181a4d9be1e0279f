"""The ticks of the streams that read a tap's events. Pure.

A stream refills tokens only between ticks, so within one a repeat of a producer id changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

MAX_TICK_MS = 60_000
"""A longer tick is cut: whatever a record in the topic says, a repeat is sent once a minute."""
_MOST_KINDS = 8


@dataclass(frozen=True)
class Ticks:
    """A cut of time so fine that no piece straddles two ticks of any stream.

    Attributes:
        cuts: length of a quantum in ms, aligned to the epoch, and how many ticks it has; see `quota.timeline`.

    Examples:
        >>> Ticks(((900_000, 90), (15_000, 90))).piece_of(10_100)
        (10000, 10167)
    """

    cuts: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, announced: Iterable[tuple[int, int]]) -> "Ticks":
        """Return the cut for announced streams, each with the length of its quantum in ms and the number of its ticks.

        Without any it is a second. Beyond some kinds it is a millisecond, which is right for all: else whoever can
        announce could make each line expensive.
        """
        kinds = tuple(sorted(set(announced)))
        if not kinds:
            return SECONDS
        return cls((*kinds, (MAX_TICK_MS, 1))) if len(kinds) <= _MOST_KINDS else MILLISECONDS

    def piece_of(self, timestamp_ms: int) -> tuple[int, int]:
        """Return the first millisecond of the piece that holds a timestamp, and that of the next piece."""
        begins, ends = zip(*(_tick(timestamp_ms, *cut) for cut in self.cuts), strict=True)
        return max(begins), min(ends)


SECONDS = Ticks(((1000, 1),))
"""If no stream is known."""
MILLISECONDS = Ticks(((1, 1),))
"""The shortest tick that a stream can have."""


def _tick(timestamp_ms: int, quantum_ms: int, ticks: int) -> tuple[int, int]:
    quantum, rest = divmod(timestamp_ms, quantum_ms)
    number, begin_ms = rest * ticks // quantum_ms, quantum * quantum_ms
    return begin_ms - (-number * quantum_ms // ticks), begin_ms - (-(number + 1) * quantum_ms // ticks)

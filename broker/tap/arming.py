"""Decides when a broker's log is needed: off while new producer ids come slowly, on while they come fast.

Pure: no Kafka, no clock.
"""

import math
from collections import deque
from enum import Enum

from broker.attribution.known_ids import KnownIds
from lifecycle.producer_id_blocks import BLOCK_LENGTH

WINDOW_S = 30.0
"""Over which ids that a broker hands out are averaged."""

BLIND_S = 60.0
"""A broker that has not told its next id for this long counts as growing: a log that is on hides nothing."""


def given_at_least(before: int, now: int) -> int:
    """How many ids a broker gave to others between two that it gave to us.

    It hands out its block in order. Once it has the next block, only what it gave of that is sure: a broker that
    restarts drops the rest of its block, and which blocks it had in between it does not tell.

    Examples:
        >>> given_at_least(5003, 5004), given_at_least(5003, 5010), given_at_least(5990, 9007)
        (0, 6, 7)
    """
    if before // BLOCK_LENGTH == now // BLOCK_LENGTH and before < now:
        return now - before - 1
    return now % BLOCK_LENGTH


class Growth:
    """The rate at which new producer ids come to a broker, by two measures.

    The ids that it gives out tell of clients that begin with this broker, within seconds. The ids that its partitions
    hold tell of those that began with another, and of ids that clients made up.

    Args:
        now_s: monotonic clock, in seconds.
    """

    def __init__(self, now_s: float) -> None:
        self._told_s = now_s
        self._next: int | None = None
        self._given: deque[tuple[float, int]] = deque()
        self._held: KnownIds | None = None
        self._held_s = now_s
        self._held_rate = 0.0

    def next_id(self, producer_id: int, now_s: float) -> None:
        """Note an id that the broker gave to us."""
        before, self._next, self._told_s = self._next, producer_id, now_s
        if before is not None:
            self._given.append((now_s, given_at_least(before, producer_id)))

    def held(self, ids: KnownIds, now_s: float) -> None:
        """Note the ids that the partitions hold which the broker leads."""
        before, self._held = self._held, ids
        if before is not None:
            new = sum(each not in before for each in ids.ids)
            self._held_rate = new / max(now_s - self._held_s, 1.0)
        self._held_s = now_s

    def rate(self, now_s: float) -> float:
        """New ids per second, at least; infinity if the broker does not tell."""
        if now_s - self._told_s > BLIND_S:
            return math.inf
        while self._given and self._given[0][0] <= now_s - WINDOW_S:
            self._given.popleft()
        return max(sum(given for _, given in self._given) / WINDOW_S, self._held_rate)


class Arming:
    """Whether the log is needed: from the moment ids come fast until they have come slowly for some time.

    Args:
        at_per_s: new ids per second above which it is.
        calm_s: how long they must have come slower before it is not.
        grew_s: when they last came fast, on the clock of `is_needed`.
    """

    def __init__(self, at_per_s: float, calm_s: float, grew_s: float = -math.inf) -> None:
        self._at_per_s, self._calm_s, self._grew_s = at_per_s, calm_s, grew_s

    def is_needed(self, rate: float, now_s: float) -> bool:
        """Note the rate, in ids per second; return whether the log is needed.

        Args:
            rate: see `Growth.rate`.
            now_s: monotonic clock, in seconds.
        """
        if rate > self._at_per_s:
            self._grew_s = now_s
        return now_s - self._grew_s < self._calm_s

    def reason(self, rate: float) -> str:
        """Why the log is needed at a rate."""
        if rate == math.inf:
            return f"the broker has not told for {BLIND_S:g} s how many new producer ids come"
        if rate > self._at_per_s:
            return f"new producer ids come at {rate:.3g}/s"
        return f"new producer ids came at more than {self._at_per_s:g}/s within the last {self._calm_s:g} s"


class Step(Enum):
    """What to do with a broker's log."""

    NOTHING = "nothing"
    SWITCH_ON = "switch on"
    SWITCH_OFF = "switch off"


def next_step(*, needed: bool, is_on: bool, is_ours: bool) -> Step:
    """Return what to do; a log that is on is left on unless it is ours.

    Args:
        needed: see `Arming`.
        is_on: all its loggers are at TRACE.
        is_ours: we have switched it on.
    """
    if needed:
        return Step.NOTHING if is_on else Step.SWITCH_ON
    return Step.SWITCH_OFF if is_ours else Step.NOTHING

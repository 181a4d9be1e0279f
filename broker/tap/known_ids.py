"""The producer ids that brokers held when they were asked: those that are old when a tap begins to watch. Pure.

Ids are unique in a cluster, so a set of them tells old from new without a principal.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from mmap import mmap
from typing import NamedTuple

_CHUNK = 250_000
_PIECE = 50_000
"""Given back to the system at once when merged: chunks and result together take little more than the result."""


class Watched(NamedTuple):
    """How far a broker's lines had been read when the brokers were asked.

    Attributes:
        since_ms: since when it had been watched without a gap, see `LearningTime.since_ms`.
        asked_at_ms: time of its newest line, or when a stream began to learn that requested the question. Not ahead of
            the tap's own clock at the question, since a broker's may be.
    """

    since_ms: int
    asked_at_ms: int


class KnownIds:
    """A sorted set of producer ids: 8 bytes each.

    Args:
        watched: by watch, what had been read when the brokers were asked.
        ids: sorted, without repeats.
        answered_at_ms: when the last broker had answered. An old id of an earlier line may be missing, because its
            topic may be gone since.
        requested_ms: the newest request that it answers, as when its stream began to learn; 0 for none.
    """

    def __init__(
        self, watched: Mapping[str, Watched], ids: "array[int]", answered_at_ms: int = 0, requested_ms: int = 0
    ) -> None:
        self.watched = dict(watched)
        self.ids = ids
        self.answered_at_ms = answered_at_ms
        self.requested_ms = requested_ms

    def before(self, requested_ms: int) -> "KnownIds":
        """Return the answer, dated before a request that came after its question.

        Hosts' clocks differ: by one that is ahead, a question from before a loss seems to be from after it.
        """
        if self.requested_ms >= requested_ms:
            return self
        watched = {
            stream: each._replace(asked_at_ms=min(each.asked_at_ms, requested_ms - 1))
            for stream, each in self.watched.items()
        }
        if watched == self.watched:
            return self
        return KnownIds(watched, self.ids, self.answered_at_ms, self.requested_ms)

    @classmethod
    def of(cls, watched: Mapping[str, Watched], found: Iterable[Iterable[int]]) -> "KnownIds":
        """Make a set of the ids of many partitions; most ids are on several."""
        chunks: list[deque[mmap]] = []
        pending: set[int] = set()
        for each in found:
            pending.update(each)
            if len(pending) >= _CHUNK:
                chunks.append(_pieces(pending))
                pending = set()
        chunks.append(_pieces(pending))
        ids, last = array("q"), None
        for producer_id in merge(*map(_drained, chunks)):
            if producer_id != last:
                ids.append(producer_id)
                last = producer_id
        return cls(watched, ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, producer_id: int) -> bool:
        place = bisect_left(self.ids, producer_id)
        return place < len(self.ids) and self.ids[place] == producer_id


def _pieces(ids: set[int]) -> deque[mmap]:
    ordered, pieces = sorted(ids), deque[mmap]()
    for begin in range(0, len(ordered), _PIECE):
        content = array("q", ordered[begin : begin + _PIECE]).tobytes()
        pieces.append(mmap(-1, len(content)))
        pieces[-1][:] = content
    return pieces


def _drained(pieces: deque[mmap]) -> Iterator[int]:
    while pieces:
        with pieces.popleft() as piece:
            yield from array("q", piece[:])


@dataclass(frozen=True)
class KnownIdAnswers:
    """What the brokers answered that concerns one broker's lines.

    Attributes:
        stream: name of the watch over that broker.
        of_watch: the answer for the watch over it; None if there is none, or it does not learn any more.
        requested: answers to questions that streams requested (`wire.learning_request`), newest first.
    """

    stream: str = ""
    of_watch: KnownIds | None = None
    requested: tuple[KnownIds, ...] = ()

    def check(self, producer_id: int, timestamp_ms: int, since_ms: int, *, learning: bool) -> tuple[bool, int | None]:
        """Return whether an id must be learned, and when the brokers were asked that did not hold it, or None."""
        asked_at_ms = None
        if learning and self.of_watch is not None:
            watched = self.of_watch.watched[self.stream]
            if watched.since_ms == since_ms and timestamp_ms > self.of_watch.answered_at_ms:
                if producer_id in self.of_watch:
                    return True, None
                asked_at_ms = watched.asked_at_ms
        for each in self.requested:
            if timestamp_ms > each.answered_at_ms and self.stream in each.watched and producer_id not in each:
                asked_at_ms = max(each.watched[self.stream].asked_at_ms, asked_at_ms or 0)
                break
        return learning and asked_at_ms is None, asked_at_ms


NO_ANSWERS = KnownIdAnswers()

"""The producer ids that brokers held when they were asked, which are old. Pure.

Ids are unique in a cluster, so a set of them distinguishes old from new without a principal.
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
"""Each piece is freed when it is merged, so that merging takes little more memory than the result."""


class Watched(NamedTuple):
    """The position in a broker's lines at the time of the question.

    `asked_at_ms` is the time of its newest line, or when the requesting stream began to learn, but never ahead of us.
    """

    since_ms: int
    asked_at_ms: int


class KnownIds:
    """A sorted set of producer ids: 8 bytes each.

    Args:
        watched: By watch, how far its lines had been read when the brokers were asked.
        ids: Sorted, without repeats.
        answered_at_ms: When the last broker had answered. An earlier line's topic may be deleted, and its id missing.
        requested_ms: When the stream of the newest answered request began to learn; 0 for none.
    """

    def __init__(
        self, watched: Mapping[str, Watched], ids: "array[int]", answered_at_ms: int = 0, requested_ms: int = 0
    ) -> None:
        self.watched = dict(watched)
        self.ids = ids
        self.answered_at_ms = answered_at_ms
        self.requested_ms = requested_ms

    def before(self, requested_ms: int) -> "KnownIds":
        """Return the answer, dated before a later request: if a host's clock is ahead, an old question looks newer."""
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
    """The brokers' answers for the watch `stream`: for itself, and for requests of streams, newest first."""

    stream: str = ""
    of_watch: KnownIds | None = None
    requested: tuple[KnownIds, ...] = ()

    def check(self, producer_id: int, timestamp_ms: int, since_ms: int, *, learning: bool) -> tuple[bool, int | None]:
        """Return whether to learn an id, and when brokers that did not hold it were asked, or None."""
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

"""The producer ids that brokers held when a tap asked them."""

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
"""Ids per piece of memory. A piece is freed once it is merged, so merging takes little more memory than the result."""


class Watched(NamedTuple):
    """The times of a watch's first line and of the tap's question to the brokers.

    `asked_at_ms` is the time of the newest line or, if later, of a stream's newest request. It is never ahead of this
    host's clock.
    """

    since_ms: int
    asked_at_ms: int


class KnownIds:
    """A sorted set of producer ids, with 8 bytes per id.

    Args:
        ids: Distinct ids, sorted.
        answered_at_ms: When the last broker answered. `ids` may lack ids of lines before this time, because brokers
            forget the ids of a deleted topic.
        requested_ms: When the stream with the newest answered request began to learn, or 0.
    """

    def __init__(
        self, watched: Mapping[str, Watched], ids: "array[int]", answered_at_ms: int = 0, requested_ms: int = 0
    ) -> None:
        self.watched = dict(watched)
        self.ids = ids
        self.answered_at_ms = answered_at_ms
        self.requested_ms = requested_ms

    def before(self, requested_ms: int) -> "KnownIds":
        """Return the answer. If it does not answer the request `requested_ms`, cap each `asked_at_ms` below that time.

        A later `asked_at_ms` comes from a clock that was ahead.
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
        """Make a set of the ids of many partitions."""
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
    """The brokers' answers: `of_watch` for the watch, and `requested` for streams' requests, newest first."""

    stream: str = ""
    of_watch: KnownIds | None = None
    requested: tuple[KnownIds, ...] = ()

    def check(self, producer_id: int, timestamp_ms: int, since_ms: int, *, learning: bool) -> tuple[bool, int | None]:
        """Return whether an event is `learning`, and the `asked_at_ms` of an answer that lacks the id, or None."""
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

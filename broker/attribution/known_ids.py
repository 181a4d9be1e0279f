"""The producer ids that brokers held when they were asked: those that are old when a tap begins to watch. Pure.

Ids are unique in a cluster, so a set of them tells old from new without a principal.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple

_CHUNK = 1_000_000


class Watched(NamedTuple):
    """How far a broker's log had been read when the brokers were asked.

    Attributes:
        since_ms: since when it had been watched without a gap, see `LearningTime.since_ms`.
        asked_at_ms: time of its newest line, or when a stream began to learn that requested the question.
    """

    since_ms: int
    asked_at_ms: int


class KnownIds:
    """A sorted set of producer ids: 8 bytes each.

    Args:
        watched: by stream of lines, what had been read when the brokers were asked.
        ids: sorted, without repeats.
        answered_at_ms: when the last broker had answered. An old id of an earlier line may be missing, because its
            topic may be gone since.
    """

    def __init__(self, watched: Mapping[str, Watched], ids: "array[int]", answered_at_ms: int = 0) -> None:
        self.watched = dict(watched)
        self.ids = ids
        self.answered_at_ms = answered_at_ms

    @classmethod
    def of(cls, watched: Mapping[str, Watched], found: Iterable[Iterable[int]]) -> "KnownIds":
        """Make a set of the ids of many partitions; most ids are on several."""
        chunks: list[array[int]] = []
        pending: set[int] = set()
        for each in found:
            pending.update(each)
            if len(pending) >= _CHUNK:
                chunks.append(array("q", sorted(pending)))
                pending = set()
        chunks.append(array("q", sorted(pending)))
        if len(chunks) == 1:
            return cls(watched, chunks[0])
        ids, last = array("q"), None
        for producer_id in merge(*chunks):
            if producer_id != last:
                ids.append(producer_id)
                last = producer_id
        return cls(watched, ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, producer_id: int) -> bool:
        place = bisect_left(self.ids, producer_id)
        return place < len(self.ids) and self.ids[place] == producer_id


@dataclass(frozen=True)
class Answers:
    """What the brokers answered that concerns one broker's log.

    Attributes:
        stream: name of the log.
        of_watch: the answer for the watch over it that still learns; None if there is none.
        requested: answers to questions that streams requested (`wire.learning_request`), newest first.
    """

    stream: str = ""
    of_watch: KnownIds | None = None
    requested: tuple[KnownIds, ...] = ()

    def judge(self, producer_id: int, timestamp_ms: int, since_ms: int, *, learning: bool) -> tuple[bool, int | None]:
        """Return whether an id must be learned, and when the brokers were asked that did not hold it, or None.

        Args:
            producer_id: of an event.
            timestamp_ms: the time of its line.
            since_ms: since when its log is watched without a gap.
            learning: whether that watch still learns.
        """
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


NO_ANSWERS = Answers()

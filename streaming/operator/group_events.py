"""Unpacks pre-aggregated rows into the events of each principal of a group.

Most principals have few events in a batch. So this module decodes columns and hashes PIDs once per group.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from quota.decision import Client
from state.events import Events
from state.hashing import hash_pids
from wire.packed_events import PackedEvents

_LONG_BYTES = 8


class Arrived(NamedTuple):
    """A principal's events in a batch.

    Attributes:
        events: The events, ordered by partition and offset.
        newest_ms: Greatest timestamp by partition.
    """

    events: Events
    newest_ms: dict[int, int]

    def partition(self) -> int:
        """Return the newest event's partition. If partitions tie, return the highest number."""
        if len(self.newest_ms) == 1:
            return next(iter(self.newest_ms))
        return max(self.newest_ms, key=lambda partition: (self.newest_ms[partition], partition))


def arrived(pre_aggregates: Sequence[tuple[str, PackedEvents]], salt: int) -> dict[str, Arrived]:
    """Return the events of a group by principal.

    `pre_aggregates` holds pairs of a principal and packed events in offset order. `salt` is for `state.hashing`.
    """
    ordered = sorted(pre_aggregates, key=itemgetter(0))
    parts = [part for _, part in ordered]
    pids = _longs([part.pids for part in parts])
    timestamps_ms = _longs([part.timestamps_ms for part in parts])
    clients = _longs([part.clients for part in parts])
    kinds = _longs([part.kinds for part in parts])
    hashes = hash_pids(pids, salt)
    found: dict[str, Arrived] = {}
    begin = 0
    for principal, group in groupby(ordered, key=itemgetter(0)):
        own = [part for _, part in group]
        newest_ms: dict[int, int] = {}
        names: list[Client] = []
        end = begin
        for part in own:
            start, end = end, end + _count(part)
            newest = max(timestamps_ms[start:end])
            newest_ms[part.partition] = max(newest, newest_ms.get(part.partition, 0))
            names += _named(part.client_names, clients[start:end])
        here = slice(begin, end)
        columns: list[list[Any]] = [pids[here], timestamps_ms[here], names, kinds[here], hashes[here]]
        if len(own) > 1:
            columns = _in_order(own, columns)
        found[principal] = Arrived(Events(*columns), newest_ms)
        begin = end
    return found


def _in_order(parts: list[PackedEvents], columns: Sequence[list[Any]]) -> list[list[Any]]:
    """Sort a principal's events by partition and offset."""
    partitions = np.repeat([part.partition for part in parts], [_count(part) for part in parts])
    offsets = np.frombuffer(b"".join(part.offsets for part in parts), np.int64)
    order = np.lexsort((offsets, partitions)).tolist()
    return [[column[row] for row in order] for column in columns]


def _longs(columns: list[bytes]) -> list[int]:
    longs: list[int] = memoryview(b"".join(columns)).cast("q").tolist()
    return longs


def _count(part: PackedEvents) -> int:
    return len(part.pids) // _LONG_BYTES


def _named(clients: list[Client], codes: list[int]) -> list[Client]:
    return clients * len(codes) if len(clients) == 1 else [clients[code] for code in codes]

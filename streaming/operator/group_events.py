"""From pre-aggregates to the events of each principal of a group.

Most principals have a handful of events in a batch, so a column is decoded once for the whole group, and PIDs are
hashed once: what a call costs counts per group, not per principal.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from quota.decision import Client
from state.events import Events
from state.hashing import hash_pids
from wire.packed_events import PackedEvents

NO_BROKER = -1
"""The broker id in scope `cluster`, which is not used."""
_LONG_BYTES = 8
_NO_BROKER_BYTES = NO_BROKER.to_bytes(_LONG_BYTES, "little", signed=True)


class Arrived(NamedTuple):
    """What arrived of one principal in a batch.

    Attributes:
        events: In partition and offset order.
        newest_ms: The greatest timestamp of each partition, in milliseconds since the epoch.
    """

    events: Events
    newest_ms: dict[int, int]

    def partition(self) -> int:
        """Return the partition of the newest event; of several, the last."""
        if len(self.newest_ms) == 1:
            return next(iter(self.newest_ms))
        return max(self.newest_ms, key=lambda partition: (self.newest_ms[partition], partition))


def arrived(pre_aggregates: Sequence[tuple[str, PackedEvents]], salt: int) -> dict[str, Arrived]:
    """Return what arrived of each principal of a group, by principal.

    Args:
        pre_aggregates: With their principals, each in offset order.
        salt: Of the stream; see `state.hashing`.
    """
    parts = [part for _, part in pre_aggregates]
    pids, timestamps_ms, clients, kinds = (
        _longs(columns)
        for columns in (
            [part.pids for part in parts],
            [part.timestamps_ms for part in parts],
            [part.clients for part in parts],
            [part.kinds for part in parts],
        )
    )
    brokers = _longs([_brokers(part) for part in parts])
    hashes = hash_pids(pids, salt)
    found: dict[str, Arrived] = {}
    begin = 0
    for principal, part in pre_aggregates:
        end = begin + len(part.pids) // _LONG_BYTES
        times = timestamps_ms[begin:end]
        events = Events(
            pids[begin:end],
            times,
            _named(part.client_names, clients[begin:end]),
            kinds[begin:end],
            brokers[begin:end],
            hashes[begin:end],
        )
        found[principal] = Arrived(events, {part.partition: max(times)})
        begin = end
    if len(found) < len(parts):
        found |= _of_several(pre_aggregates, salt)
    return found


def _of_several(pre_aggregates: Sequence[tuple[str, PackedEvents]], salt: int) -> dict[str, Arrived]:
    """Return what arrived of those principals that have several pre-aggregates."""
    by_principal: dict[str, list[PackedEvents]] = {}
    for principal, part in pre_aggregates:
        by_principal.setdefault(principal, []).append(part)
    found = {}
    for principal, parts in by_principal.items():
        if len(parts) == 1:
            continue
        newest_ms: dict[int, int] = {}
        for part in parts:
            newest_ms[part.partition] = max(part.newest_ms(), newest_ms.get(part.partition, 0))
        events = in_order(parts)
        found[principal] = Arrived(replace(events, hashes=hash_pids(events.pids, salt)), newest_ms)
    return found


def _longs(columns: list[bytes]) -> list[int]:
    longs: list[int] = memoryview(b"".join(columns)).cast("q").tolist()
    return longs


def _brokers(part: PackedEvents) -> bytes:
    return part.brokers or _NO_BROKER_BYTES * (len(part.pids) // _LONG_BYTES)


def _named(clients: list[Client], codes: list[int]) -> list[Client]:
    return clients * len(codes) if len(clients) == 1 else [clients[code] for code in codes]


def in_order(pre_aggregates: Sequence[PackedEvents]) -> Events:
    """Merge the pre-aggregates of a principal into its events in partition and offset order."""
    if len(pre_aggregates) == 1:
        return _of_one(pre_aggregates[0])
    names: list[Client] = []
    columns: list[list[np.ndarray]] = []
    for part in pre_aggregates:
        read = [
            np.frombuffer(column, np.int64)
            for column in (
                part.offsets,
                part.pids,
                part.timestamps_ms,
                part.clients,
                part.kinds,
            )
        ]
        brokers = np.frombuffer(part.brokers, np.int64) if part.brokers else np.full(len(read[0]), NO_BROKER)
        columns.append([np.full(len(read[0]), part.partition), *read[:3], read[3] + len(names), read[4], brokers])
        names += part.client_names
    partition, offset, pid, timestamp, client, kind, broker = (
        np.concatenate(parts) for parts in zip(*columns, strict=True)
    )
    order = np.lexsort((offset, partition))
    return Events(
        pids=pid[order].tolist(),
        timestamps_ms=timestamp[order].tolist(),
        clients=[names[code] for code in client[order].tolist()],
        kinds=kind[order].tolist(),
        broker_ids=broker[order].tolist(),
    )


def _of_one(part: PackedEvents) -> Events:
    """Return the events of one pre-aggregate, which is in offset order: most principals write to one partition."""
    pids, timestamps_ms, clients, kinds = (
        memoryview(column).cast("q").tolist() for column in (part.pids, part.timestamps_ms, part.clients, part.kinds)
    )
    broker_ids = memoryview(part.brokers).cast("q").tolist() if part.brokers else [NO_BROKER] * len(pids)
    return Events(pids, timestamps_ms, [part.client_names[code] for code in clients], kinds, broker_ids)

"""Packs the events of a block: one row per principal and partition."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from quota.decision import OTHER_CLIENTS, Client
from state.events import CHARGED, LEARNING
from streaming.decode.exploded import Exploded, column
from wire.packed_events import PackedEvents, pack

_LONG_BYTES = 8
MAX_CLIENT_CHARS = 256
"""Longer client ids and addresses become `other`. The state stores these texts, and Kafka allows 32 kB."""


def pack_by_principal(events: Exploded) -> Iterator[tuple[str, bytes]]:
    """Yield a principal and encoded `PackedEvents` for each principal and partition of a block."""
    partitions = column(events.records, "partition").to_numpy()
    offsets, owners = column(events.records, "offset").to_numpy(), _codes(events.records, "principal")
    # Sort records by partition, principal and offset. Events keep their order within a record.
    order = np.lexsort((offsets, owners, partitions))
    for rows in np.split(order, np.flatnonzero(np.diff(partitions[order])) + 1):
        if len(rows):
            yield from _pack_partition(events.select(rows), int(partitions[rows[0]]))


def _pack_partition(events: Exploded, partition: int) -> Iterator[tuple[str, bytes]]:
    records, record, pid = events.records, events.record(), events.producer_ids
    names = column(records, "principal").dictionary.to_pylist()
    client_names, clients = _clients(events.groups)
    # A PID of -1 is none.
    kept = np.flatnonzero(pid >= 0)
    if not len(kept):
        return
    owner, kinds = _codes(records, "principal")[record][kept], _kinds(events.groups)[events.group[kept]]
    offset = column(records, "offset").to_numpy()[record[kept]]
    local, clients_of = _local_codes(owner, clients[events.group[kept]])
    columns = [each.tobytes() for each in (offset, pid[kept], events.timestamps_ms[kept], local, kinds)]
    starts = np.flatnonzero(np.diff(owner, prepend=-1)).tolist()
    owners = owner[starts].tolist()
    for begin, end, code, own_clients in zip(starts, [*starts[1:], len(kept)], owners, clients_of, strict=True):
        own = slice(begin * _LONG_BYTES, end * _LONG_BYTES)
        own_names = [client_names[client] for client in own_clients]
        offsets, pids, times, codes, own_kinds = (each[own] for each in columns)
        yield names[code], pack(PackedEvents(partition, offsets, pids, times, codes, own_kinds, own_names))


def _codes(records: pa.Table, name: str) -> np.ndarray:
    codes: np.ndarray = column(records, name).indices.to_numpy()
    return codes


def _clients(groups: pa.Table) -> tuple[list[Client], np.ndarray]:
    """Return the distinct clients, and each group's index into them."""
    client_ids, of_ids = _encoded(column(groups, "client_id"))
    given = column(groups, "address")
    if given.null_count == len(given):
        return [(client_id, "") for client_id in client_ids], of_ids
    addresses, of_addresses = _encoded(given)
    # A pair of client id and address is one number. Only pairs that occur get a code.
    pairs = pa.array(of_ids.astype(np.int64) * len(addresses) + of_addresses).dictionary_encode()
    named = (divmod(pair, len(addresses)) for pair in pairs.dictionary.to_pylist())
    return [(client_ids[client_id], addresses[address]) for client_id, address in named], pairs.indices.to_numpy()


def _encoded(texts: pa.Array) -> tuple[list[str], np.ndarray]:
    """Return the distinct texts, and each row's index into them. Null becomes an empty text."""
    encoded = texts.fill_null("").dictionary_encode()
    named = (text if len(text) <= MAX_CLIENT_CHARS else OTHER_CLIENTS for text in encoded.dictionary.to_pylist())
    return list(named), encoded.indices.to_numpy()


def _local_codes(owner: np.ndarray, client: np.ndarray) -> tuple[np.ndarray, list[list[int]]]:
    """Number each owner's clients from 0. Return each event's number, and each owner's client codes.

    `owner` and `client` have an entry for each event. `owner` is ascending and not empty.
    """
    base = int(client.max()) + 1
    of_events = owner.astype(np.int64) * base + client
    # Consecutive events often have the same client.
    runs = np.flatnonzero(np.diff(of_events, prepend=-1))
    pairs, number = np.unique(of_events[runs], return_inverse=True)
    owners, clients = np.divmod(pairs, base)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(pairs)))
    local = np.repeat(number - first[number], np.diff(runs, append=len(owner)))
    codes, begins = clients.tolist(), starts.tolist()
    return local, [codes[begin:end] for begin, end in zip(begins, [*begins[1:], len(codes)], strict=True)]


def _kinds(groups: pa.Table) -> np.ndarray:
    """Return the kind of each group's events; see `state.events.Events.kinds`."""
    learning = groups["learning"].fill_null(False).to_numpy()
    kinds: np.ndarray = np.where(learning, LEARNING, CHARGED)
    return kinds

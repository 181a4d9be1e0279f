"""The tally: what a block of events says of each principal, in one row per principal.

It goes before the shuffle, because the operator behind it costs per principal and batch, not per event. It leaves out
repeats of a PID within a tick, which change nothing (see `state.ledger`), also of earlier batches as far as the worker
remembers them (see `streaming.forwarded`).
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
import pyarrow as pa

from quota.config import TICKS_PER_QUANTUM
from state.events import CHARGED, CORRECTION, LEARNING
from streaming.forwarded import PartitionMemory, Recall, memory_of_worker, newest_before
from streaming.overflow import Gate, no_limit
from streaming.quarantine import Sampler
from streaming.records import Contract, Quarantined, blocks, decode
from streaming.tasks import keep_modules

TALLY_SCHEMA = "principal STRING, packed BINARY"
"""`principal` is an overflow entry for those that can't be tracked."""
BLOCK_BYTES = 16 * 1024 * 1024
QUARANTINE_PREFIX = "\x00quarantine/"
"""No principal starts so: rows under it carry quarantined records past the quota rules."""
NOTHING_REMEMBERED: Mapping[int, PartitionMemory] = {}
_BROKERS = 1 << 40
"""More than there are: kind and broker of an event make one number."""
_LONG_BYTES = 8
MAX_CLIENT_ID_CHARS = 256
"""Longer client ids are cut: they are evidence in a decision and part of the state, and Kafka allows 32 kB."""


class PackedEvents(msgspec.Struct, array_like=True):
    """Events of one principal and partition as columns of int64 (`clients`: codes into `client_ids`).

    `brokers` is empty in scope `cluster`.
    """

    partition: int
    offsets: bytes
    pids: bytes
    timestamps_ms: bytes
    clients: bytes
    kinds: bytes
    brokers: bytes
    client_ids: list[str]


_packer = msgspec.msgpack.Encoder()


def tally(
    quantum_ms: int,
    contract: Contract,
    batches: Iterator[pa.RecordBatch],
    open_gate: Callable[[], Gate] = no_limit,
    open_memory: Callable[[], Recall | None] = memory_of_worker,
    topic: str = "produce-events",
) -> Iterator[pa.RecordBatch]:
    """Decode and tally the Kafka records of one task; the function of `mapInArrow`.

    Args:
        quantum_ms: Length of a quantum in milliseconds.
        contract: What events must satisfy; if it needs brokers, principals are tallied per broker.
        batches: Columns as in `streaming.records.decode`, but for the topic.
        open_gate: Gives what decides which principals are tracked.
        open_memory: Gives what the worker remembers of earlier batches, None for nothing.
        topic: Where the records come from.

    Yields:
        Rows of `TALLY_SCHEMA`.
    """
    keep_modules()
    gate, sampler, recall = open_gate(), Sampler(), open_memory()
    for each in blocks(batches, BLOCK_BYTES):
        # Told here, it costs nothing per record on the way into Python.
        block = each.append_column("topic", pa.repeat(topic, len(each)))
        decoded = decode(block, contract)
        memories = _recalled(topic, block, recall) if recall else {}
        rows = list(tally_events(decoded.events, quantum_ms, per_broker=contract.needs_broker, memories=memories))
        beyond = gate.keys(list(dict.fromkeys(principal for principal, _ in rows)))
        for principal in beyond:
            # Its PIDs are known to an overflow entry, which does not help it once it is tracked.
            for memory in memories.values():
                memory.forget(principal)
        yield from _batch(
            [(beyond.get(principal, principal), packed) for principal, packed in rows],
            sampler.sample(decoded.quarantined),
        )
    yield from _batch([], sampler.left_out())


def _recalled(topic: str, block: pa.Table, recall: Recall) -> dict[int, PartitionMemory]:
    """Return what is remembered of each partition of a block."""
    found = {}
    partitions, offsets = (block[name].to_numpy() for name in ("partition", "offset"))
    for partition in np.unique(partitions).tolist():
        here = offsets[partitions == partition]
        found[partition] = recall(topic, partition, int(here.min()), int(here.max()))
    return found


def _batch(rows: list[tuple[str, bytes]], quarantined: list[Quarantined]) -> Iterator[pa.RecordBatch]:
    if quarantined:
        # A key of its own per block, so that bad input is spread over the tasks.
        first = quarantined[0]
        key = f"{QUARANTINE_PREFIX}{first.topic}/{first.partition}/{first.offset}"
        rows.append((key, _packer.encode(quarantined)))
    if rows:
        principals, packed = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(principals, pa.string()), pa.array(packed, pa.binary())], ["principal", "packed"]
        )


def tally_events(
    events: pa.Table,
    quantum_ms: int,
    *,
    per_broker: bool = False,
    memories: Mapping[int, PartitionMemory] = NOTHING_REMEMBERED,
) -> Iterator[tuple[str, bytes]]:
    """Yield principal and `PackedEvents` for each principal and partition of a block.

    Args:
        events: Columns of `streaming.records.EVENT_SCHEMA` and `SOURCE_COLUMNS`.
        quantum_ms: Length of a quantum in milliseconds.
        per_broker: Whether each broker has a time and ledgers of its own (scope `broker`).
        memories: What is remembered of earlier batches, by partition.
    """
    partitions = events["partition"].to_numpy()
    for partition in np.unique(partitions):
        part = events if len(events) and (partitions == partition).all() else events.filter(partitions == partition)
        memory = memories.get(int(partition))
        yield from _tally_partition(part.sort_by("offset"), int(partition), quantum_ms, per_broker, memory)


def _tally_partition(
    events: pa.Table, partition: int, quantum_ms: int, per_broker: bool, memory: PartitionMemory | None
) -> Iterator[tuple[str, bytes]]:
    principals = events["principal"].combine_chunks().dictionary_encode()
    clients = events["client_id"].combine_chunks().fill_null("").dictionary_encode()
    names, client_names = principals.dictionary.to_pylist(), clients.dictionary.to_pylist()
    owner = principals.indices.to_numpy()
    pid, timestamp = events["producer_id"].to_numpy(), events["timestamp_ms"].to_numpy()
    counted = _kinds(events)
    brokers = events["broker_id"].to_numpy().astype(np.int64) if per_broker else np.zeros(len(pid), np.int64)
    kind = np.stack([counted, brokers])
    tick = ticks_of(timestamp, quantum_ms)
    kept = np.flatnonzero((pid >= 0) & ~_repeats(owner, pid, tick, kind))
    if memory is not None and len(kept):
        how = counted * _BROKERS + brokers
        kept = kept[~memory.repeats(names, owner[kept], pid[kept], tick[kept], how[kept])]
    if not len(kept):
        return
    kept = kept[np.argsort(owner[kept], kind="stable")]
    offset = events["offset"].to_numpy()
    columns = [column[kept].tobytes() for column in (offset, pid, timestamp)]
    local, clients_of = _local_codes(owner[kept], clients.indices.to_numpy()[kept])
    columns += [local.tobytes(), counted[kept].tobytes(), brokers[kept].tobytes() if per_broker else b""]
    starts = np.flatnonzero(np.diff(owner[kept], prepend=-1)).tolist()
    owners = owner[kept[starts]].tolist()
    for begin, end, code, own_clients in zip(starts, [*starts[1:], len(kept)], owners, clients_of, strict=True):
        own = slice(begin * _LONG_BYTES, end * _LONG_BYTES)
        client_ids = [client_names[client][:MAX_CLIENT_ID_CHARS] for client in own_clients]
        yield names[code], _packer.encode(PackedEvents(partition, *(column[own] for column in columns), client_ids))


def _local_codes(owner: np.ndarray, client: np.ndarray) -> tuple[np.ndarray, list[list[int]]]:
    """Count the clients of each owner on their own: each event's number among them, and the owners' clients.

    Args:
        owner: Owners of events, ascending; at least one.
        client: Their clients' codes.
    """
    base = int(client.max()) + 1
    pairs, number = np.unique(owner.astype(np.int64) * base + client, return_inverse=True)
    owners, clients = np.divmod(pairs, base)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(pairs)))
    return number - first[number], [each.tolist() for each in np.split(clients, starts[1:])]


def _kinds(events: pa.Table) -> np.ndarray:
    """Return how each event is counted: `CHARGED`, `CORRECTION` or `LEARNING`."""
    correction, learning = (events[name].fill_null(False).to_numpy() for name in ("correction", "learning"))
    return np.select([correction, learning], [CORRECTION, LEARNING], CHARGED).astype(np.int64)


def ticks_of(timestamps_ms: np.ndarray, quantum_ms: int) -> np.ndarray:
    """Return the tick of each timestamp, as `quota.timeline.Timeline.tick` does for one."""
    quantum, rest = np.divmod(timestamps_ms, quantum_ms)
    return quantum * TICKS_PER_QUANTUM + rest * TICKS_PER_QUANTUM // quantum_ms


def _repeats(owner: np.ndarray, pid: np.ndarray, tick: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Mark events that change nothing, because their PID's event just before them was of the same tick and kind.

    Only the one just before counts: an event of another tick, a correction, or one on another broker may have changed
    what is known of the PID. And only while the principal's time stood still on all brokers: an older event counts for
    the time that has come since.
    """
    newest = newest_before(owner, tick)
    by_pid = np.lexsort((np.arange(len(pid)), pid, owner))
    here, before = by_pid[1:], by_pid[:-1]
    repeats = np.zeros(len(pid), dtype=bool)
    repeats[here] = (
        (owner[here] == owner[before])
        & (pid[here] == pid[before])
        & (tick[here] == tick[before])
        & (kind[:, here] == kind[:, before]).all(axis=0)
        & (tick[here] == newest[here])
    )
    return repeats

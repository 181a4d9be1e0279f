"""The tally: what a block of events says of each principal, in one row per principal.

It goes before the shuffle, because the operator behind it costs per principal and batch, not per event. It leaves out
repeats of a PID within a tick, which change nothing (see `state.ledger`).
"""

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from quota.config import TICKS_PER_QUANTUM
from streaming.records import Quarantined, blocks, decode

TALLY_SCHEMA = "principal STRING, packed BINARY"
BLOCK_BYTES = 16 * 1024 * 1024
QUARANTINE_PREFIX = "\x00quarantine/"
"""No principal starts so: rows under it carry quarantined records past the quota rules."""


class PackedEvents(msgspec.Struct, array_like=True):
    """Events of one principal and partition as columns of int64 (`clients`: codes into `client_ids`)."""

    partition: int
    offsets: bytes
    pids: bytes
    timestamps_ms: bytes
    clients: bytes
    corrections: bytes
    client_ids: list[str]


_packer = msgspec.msgpack.Encoder()


def tally(
    quantum_ms: int, late_grace_ms: int, max_clock_skew_ms: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Decode and tally the Kafka records of one task; the function of `mapInArrow`.

    Args:
        quantum_ms: Length of a quantum in milliseconds.
        late_grace_ms: Grace of the late rule in milliseconds.
        max_clock_skew_ms: How far an event may be ahead of its record, in milliseconds.
        batches: Columns as in `streaming.records.decode`.

    Yields:
        Rows of `TALLY_SCHEMA`.
    """
    for block in blocks(batches, BLOCK_BYTES):
        decoded = decode(block, max_clock_skew_ms)
        rows = list(tally_events(decoded.events, quantum_ms, late_grace_ms))
        rows += _quarantine_rows(decoded.quarantined)
        if rows:
            principals, packed = zip(*rows, strict=True)
            columns = [pa.array(principals, pa.string()), pa.array(packed, pa.binary())]
            yield pa.record_batch(columns, ["principal", "packed"])


def tally_events(events: pa.Table, quantum_ms: int, late_grace_ms: int) -> Iterator[tuple[str, bytes]]:
    """Yield principal and `PackedEvents` for each principal and partition of a block.

    Args:
        events: Columns of `streaming.records.EVENT_SCHEMA` and `SOURCE_COLUMNS`.
        quantum_ms: Length of a quantum in milliseconds.
        late_grace_ms: Grace of the late rule in milliseconds.
    """
    partitions = events["partition"].to_numpy()
    for partition in np.unique(partitions):
        part = events if len(events) and (partitions == partition).all() else events.filter(partitions == partition)
        yield from _tally_partition(part.sort_by("offset"), int(partition), quantum_ms, late_grace_ms)


def _tally_partition(
    events: pa.Table, partition: int, quantum_ms: int, late_grace_ms: int
) -> Iterator[tuple[str, bytes]]:
    principals = events["principal"].combine_chunks().dictionary_encode()
    clients = events["client_id"].combine_chunks().fill_null("").dictionary_encode()
    client_names = clients.dictionary.to_pylist()
    owner = principals.indices.to_numpy()
    pid, timestamp = events["producer_id"].to_numpy(), events["timestamp_ms"].to_numpy()
    correction = events["correction"].fill_null(False).to_numpy().astype(np.int64)
    kept = np.flatnonzero((pid >= 0) & ~_repeats(owner, pid, timestamp, correction, quantum_ms, late_grace_ms))
    kept = kept[np.argsort(owner[kept], kind="stable")]
    starts = np.flatnonzero(np.diff(owner[kept], prepend=-1))
    for rows in np.split(kept, starts[1:]) if len(kept) else []:
        codes, local = np.unique(clients.indices.to_numpy()[rows], return_inverse=True)
        packed = PackedEvents(
            partition,
            *(column[rows].tobytes() for column in (events["offset"].to_numpy(), pid, timestamp)),
            local.astype(np.int64).tobytes(),
            correction[rows].tobytes(),
            [client_names[code] for code in codes],
        )
        yield principals.dictionary[int(owner[rows[0]])].as_py(), _packer.encode(packed)


def ticks_of(timestamps_ms: np.ndarray, quantum_ms: int) -> np.ndarray:
    """Return the tick of each timestamp, as `quota.timeline.Timeline.tick` does for one."""
    quantum, rest = np.divmod(timestamps_ms, quantum_ms)
    return quantum * TICKS_PER_QUANTUM + rest * TICKS_PER_QUANTUM // quantum_ms


def _repeats(
    owner: np.ndarray,
    pid: np.ndarray,
    timestamp: np.ndarray,
    correction: np.ndarray,
    quantum_ms: int,
    late_grace_ms: int,
) -> np.ndarray:
    """Mark events whose PID's event just before it, in offset order, was of the same tick and kind.

    Only the one just before counts, since an event of another tick, or a correction, may have changed what is known
    of the PID. Events that may be late by now are never marked: the rules treat them differently from their first.
    """
    tick = ticks_of(timestamp, quantum_ms)
    order = np.lexsort((np.arange(len(pid)), pid, owner))
    same = np.zeros(len(pid), dtype=bool)
    if len(pid) > 1:
        here, before = order[1:], order[:-1]
        same[here] = (
            (owner[here] == owner[before])
            & (pid[here] == pid[before])
            & (tick[here] == tick[before])
            & (correction[here] == correction[before])
        )
    newest = np.maximum.accumulate(timestamp) if len(timestamp) else timestamp
    # One quantum of slack covers the rounding of the late rule to whole ticks.
    return same & (newest - timestamp <= late_grace_ms - quantum_ms // TICKS_PER_QUANTUM)


def _quarantine_rows(quarantined: list[Quarantined]) -> list[tuple[str, bytes]]:
    """One row per block: its key is unique, so that bad input is spread over the tasks."""
    if not quarantined:
        return []
    first = quarantined[0]
    return [(f"{QUARANTINE_PREFIX}{first.topic}/{first.partition}/{first.offset}", _packer.encode(quarantined))]

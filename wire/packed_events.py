"""Packs pre-aggregated events for the stateful operator."""

from typing import NamedTuple

import msgspec


class Quarantined(NamedTuple):
    """A bad input record, with the reason, its position, and Kafka's timestamp of the record (`record_ms`)."""

    value: bytes
    reason: str
    topic: str
    partition: int
    offset: int
    record_ms: int


PRE_AGGREGATE_SCHEMA = "principal STRING, packed BINARY"
"""For a principal beyond `--max-principals`, `principal` is one of `quota.principals.OVERFLOW_PRINCIPALS`."""


class PackedEvents(msgspec.Struct, array_like=True, tag=0):
    """Events of one principal and partition as columns of int64; `clients` holds indexes into `client_names`.

    A client name is a client id and an address, each empty if unknown.
    """

    partition: int
    offsets: bytes
    pids: bytes
    timestamps_ms: bytes
    clients: bytes
    kinds: bytes
    client_names: list[tuple[str, str]]


class PackedQuarantine(msgspec.Struct, array_like=True, tag=1):
    """Bad records, which bypass the quota rules."""

    records: list[Quarantined]


_packer = msgspec.msgpack.Encoder()
_unpacker = msgspec.msgpack.Decoder(PackedEvents | PackedQuarantine)


def pack(part: PackedEvents | PackedQuarantine) -> bytes:
    """Encode the `packed` column of `PRE_AGGREGATE_SCHEMA`."""
    return _packer.encode(part)


def unpack(packed: bytes) -> PackedEvents | PackedQuarantine:
    """Decode what `pack` encoded."""
    found: PackedEvents | PackedQuarantine = _unpacker.decode(packed)
    return found

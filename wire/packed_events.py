"""Tallied events on their way from the pre-aggregation to the operator: how they are packed and unpacked."""

from typing import NamedTuple

import msgspec


class Quarantined(NamedTuple):
    """A record that is not a produce event: where it is, what it held, and what is wrong with it."""

    value: bytes
    reason: str
    topic: str
    partition: int
    offset: int
    record_ms: int


PRE_AGGREGATE_SCHEMA = "principal STRING, packed BINARY"
"""`principal` is an overflow entry for those that can't be tracked."""


class PackedEvents(msgspec.Struct, array_like=True, tag=0):
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

    def newest_ms(self) -> int:
        """Return the time of the newest of them, in milliseconds since the epoch."""
        return max(memoryview(self.timestamps_ms).cast("q"))


class PackedQuarantine(msgspec.Struct, array_like=True, tag=1):
    """Bad records, on their way past the quota rules."""

    records: list[Quarantined]


_packer = msgspec.msgpack.Encoder()
_unpacker = msgspec.msgpack.Decoder(PackedEvents | PackedQuarantine)


def pack(tallied: PackedEvents | PackedQuarantine) -> bytes:
    """Return what a row of `PRE_AGGREGATE_SCHEMA` carries."""
    return _packer.encode(tallied)


def unpack(packed: bytes) -> PackedEvents | PackedQuarantine:
    """Return what `pack` packed."""
    found: PackedEvents | PackedQuarantine = _unpacker.decode(packed)
    return found

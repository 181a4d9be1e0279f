"""Ledgers as bytes: a magic word, a version, a checksum, then MessagePack.

Spark can't change the schema of a stored state, so the state is one binary column, and the bytes contain a version.
"""

import zlib

import msgspec

from quota.limits import UNLIMITED, Limit
from quota.rate import SampledRate
from state.errors import LedgerCodecError
from state.learning import Learning
from state.quantum import Quantum
from state.sketch import DistinctPids
from state.throttle import Throttle
from state.window import IntervalCounts, QuantumCounts

MAGIC = b"PQL"
VERSION = 5
_HEADER_BYTES = len(MAGIC) + 1 + 4
_VERSION_BYTE = bytes([VERSION])


class LedgerState(msgspec.Struct, array_like=True):
    """The stored state of one principal.

    Attributes:
        clock_tick: Tick of the ledger's clock; -1 before the first event. A later event moves the clock unless the
            current quantum holds its PID.
        learning: The learning time after an earlier ledger was lost.
        bucket: Result of `TokenBucket.to_parts`; None until a PID takes a token under a quota.
        limit: The quota of the last batch.
    """

    clock_tick: int = -1
    interval: IntervalCounts = msgspec.field(default_factory=IntervalCounts)
    learning: Learning = Learning()
    bucket: tuple[str, int] | None = None
    rate: SampledRate = msgspec.field(default_factory=SampledRate)
    quanta: list[Quantum] = msgspec.field(default_factory=list)
    counts: list[QuantumCounts] = msgspec.field(default_factory=list)
    throttle: Throttle = msgspec.field(default_factory=Throttle)
    limit: Limit = UNLIMITED


_encoder = msgspec.msgpack.Encoder(enc_hook=DistinctPids.to_bytes)
_decoder = msgspec.msgpack.Decoder(LedgerState, dec_hook=lambda kind, content: kind(content))


def encode(state: LedgerState) -> bytes:
    """Return the state as bytes.

    Examples:
        >>> decode(encode(LedgerState(clock_tick=7))).clock_tick
        7
    """
    body = _encoder.encode(state)
    return MAGIC + _VERSION_BYTE + zlib.crc32(body).to_bytes(4, "big") + body


def decode(content: bytes) -> LedgerState:
    """Return the state that `encode` encoded.

    Raises:
        LedgerCodecError: If the bytes are damaged, have another version, or are not a ledger.
    """
    body = _unwrapped(content)
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        msg = f"ledger of {len(body)} bytes passes its checksum but does not decode: {error}"
        raise LedgerCodecError(msg) from error


def _unwrapped(content: bytes) -> bytes:
    if len(content) < _HEADER_BYTES or content[: len(MAGIC)] != MAGIC:
        msg = f"{len(content)} bytes starting with {content[:4]!r} are not a ledger (expected {MAGIC!r} in front)"
        raise LedgerCodecError(msg)
    version = content[len(MAGIC)]
    if version != VERSION:
        msg = f"ledger has version {version}, this release reads {VERSION}: it restarts in learning mode for a window"
        raise LedgerCodecError(msg)
    body = content[_HEADER_BYTES:]
    if zlib.crc32(body).to_bytes(4, "big") != content[len(MAGIC) + 1 : _HEADER_BYTES]:
        msg = f"ledger of {len(content)} bytes fails its checksum: it is truncated or damaged"
        raise LedgerCodecError(msg)
    return body

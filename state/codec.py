"""Ledgers as bytes: a magic word, a version, a checksum, then MessagePack.

Spark can't evolve the schema of an `applyInPandasWithState` state, so the state is one binary column and the version
is in here.
"""

import zlib
from typing import TypeVar

import msgspec

from quota.episode import Episode
from quota.limits import QuotaSource
from quota.rate import SampledRate
from state.errors import LedgerCodecError
from state.layers import QuantumState
from state.window import QuantumCounts

MAGIC = b"PQL"
BROKERS_MAGIC = b"PQB"
VERSION = 1
_HEADER_BYTES = len(MAGIC) + 1 + 4


class LedgerState(msgspec.Struct, array_like=True):
    """All that is remembered of one principal.

    Attributes:
        clock_tick: Tick of the latest admission, refusal, refresh or quantum edge; -1 before the first event.
        interval: Metrics interval the counts below belong to; -1 before the first event.
        interval_admitted: PIDs admitted in it.
        interval_refused: Distinct PIDs refused in it (an estimate).
        learn_until_ms: End of a learning time of this ledger's own, after its predecessor was lost.
        bucket: `TokenBucket.to_parts`; None until a quota first applied.
        rate: The sampled rate.
        quanta: The layered filter.
        counts: Counts of the live quanta.
        episode: The throttle in force.
        limit: The fields of the `Limit` last in force; None before the first event.
    """

    clock_tick: int = -1
    interval: int = -1
    interval_admitted: int = 0
    interval_refused: float = 0.0
    learn_until_ms: int = 0
    bucket: tuple[int, int, int] | None = None
    rate: SampledRate = msgspec.field(default_factory=SampledRate)
    quanta: list[QuantumState] = msgspec.field(default_factory=list)
    counts: list[QuantumCounts] = msgspec.field(default_factory=list)
    episode: Episode | None = None
    limit: tuple[float | None, QuotaSource, int | None] | None = None


_T = TypeVar("_T")

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LedgerState)
_brokers_decoder = msgspec.msgpack.Decoder(dict[int, bytes])


def encode(state: LedgerState) -> bytes:
    """Return the state as bytes.

    Examples:
        >>> decode(encode(LedgerState(clock_tick=7))).clock_tick
        7
    """
    return _wrap(MAGIC, _encoder.encode(state))


def encode_brokers(ledgers: dict[int, bytes]) -> bytes:
    """Return the encoded ledgers of a principal, one per broker id, as bytes."""
    return _wrap(BROKERS_MAGIC, _encoder.encode(ledgers))


def decode(content: bytes) -> LedgerState:
    """Return the state that bytes hold.

    Raises:
        LedgerCodecError: If the bytes are truncated, damaged, foreign or of a newer version.
    """
    return _decoded(_decoder, _unwrap(MAGIC, content))


def decode_brokers(content: bytes) -> dict[int, bytes]:
    """Return the encoded ledgers by broker id; errors as in `decode`."""
    return _decoded(_brokers_decoder, _unwrap(BROKERS_MAGIC, content))


def _wrap(magic: bytes, body: bytes) -> bytes:
    return magic + bytes([VERSION]) + zlib.crc32(body).to_bytes(4, "big") + body


def _unwrap(magic: bytes, content: bytes) -> bytes:
    if len(content) < _HEADER_BYTES or content[: len(magic)] != magic:
        msg = f"{len(content)} bytes starting with {content[:4]!r} are not a ledger (expected {magic!r} in front)"
        raise LedgerCodecError(msg)
    version = content[len(MAGIC)]
    if version != VERSION:
        msg = (
            f"ledger has version {version}, this release reads {VERSION}: run the release that wrote it, or a newer one"
        )
        raise LedgerCodecError(msg)
    body = content[_HEADER_BYTES:]
    if zlib.crc32(body).to_bytes(4, "big") != content[len(MAGIC) + 1 : _HEADER_BYTES]:
        msg = f"ledger of {len(content)} bytes fails its checksum: it is truncated or damaged"
        raise LedgerCodecError(msg)
    return body


def _decoded(decoder: msgspec.msgpack.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        msg = f"ledger of {len(body)} bytes passes its checksum but does not decode: {error}"
        raise LedgerCodecError(msg) from error

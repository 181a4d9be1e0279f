"""The topic `pid-quota-holds`: who is on hold until when. The brokers' `pidquota.HoldAuthorizer` obeys it.

The topic has one partition and is compacted. The key of a **hold** is the principal. A record without a value ends the
hold. The key of a **release** is `release:` and a principal, or `release:*` for all principals: until it runs out, its
principals are not held, whatever holds say.

A **writer** is a stream that may write holds. It says once a minute that it is alive, by a record whose headers hold
what it says. Brokers compare its version with their plugin's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

HOLD_AUTHORIZER = "pidquota.HoldAuthorizer"
"""Value of `authorizer.class.name` for clusters that use Kafka's own ACLs."""
HOLD_ANY_AUTHORIZER = "pidquota.HoldAnyAuthorizer"
"""Value of `authorizer.class.name` for clusters with another authorizer, or with none."""

MAX_HOLD_MS = 600_000
"""Longest time of a record of a hold. Brokers ignore a record with a longer time."""
MAX_RELEASE_MS = 7 * 86_400_000
"""Longest time of a release."""
VERSION = 1
EVERYBODY = "*"
"""Principal of a release of all principals."""

_RELEASE = "release:"
_WRITER = "writer:"
_EPOCH, _SINCE, _GONE, _VERSION = "epoch", "since", "gone", "version"
_Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="version", tag=VERSION):
    """A hold on the principal in the record's key.

    Attributes:
        hold_ms: how long the hold lasts from this record on, in ms. Brokers count from the moment they read the record.
        until_ms: when the decision ends, in ms since the epoch, for people.
        init_every_ms: each broker lets one request for a new PID through per this time; None for none.
        decision_id: the row in `throttle_decisions`; empty for a hold by hand.
        writer: id of the stream, or the person who wrote the record by hand.
        writer_epoch: grows with each start of the stream; None for a record by hand.
    """

    cluster_id: str
    hold_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_HOLD_MS)]
    until_ms: Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
    init_every_ms: _Milliseconds | None = None
    decision_id: str = ""
    reason: str = ""
    writer: str
    writer_epoch: _Milliseconds | None = None


class Release(msgspec.Struct, frozen=True, kw_only=True, tag_field="version", tag=VERSION):
    """A release of the principal in the record's key. `by` is the person who released."""

    cluster_id: str
    release_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_RELEASE_MS)]
    by: str = ""


@dataclass(frozen=True)
class HoldRecord:
    """A record of the topic. If `content` is None, it ends the hold or the release of `principal`."""

    principal: str
    is_release: bool
    content: Hold | Release | None


@dataclass(frozen=True)
class WriterRecord:
    """A stream that may write holds says that it is alive.

    Attributes:
        epoch: grows with each start of the stream.
        since: offset of the first record of the time in which it was alive without a gap; None for this record.
        is_gone: whether it says that it ends.
        version: version of pid-quota; empty if the record does not tell.
    """

    writer: str
    epoch: int
    since: int | None = None
    is_gone: bool = False
    version: str = ""


Headers = Iterable[tuple[str, str | bytes | None]]


class _Versioned(msgspec.Struct):
    version: Literal[1]
    """msgspec takes a tag that is missing for the right one."""


_versioned = msgspec.json.Decoder(_Versioned)
_hold = msgspec.json.Decoder(Hold)
_release = msgspec.json.Decoder(Release)


def hold_key(principal: str) -> bytes:
    """Return the key of a hold."""
    return principal.encode()


def release_key(principal: str) -> bytes:
    """Return the key of a release. `EVERYBODY` releases all principals.

    Examples:
        >>> release_key(EVERYBODY)
        b'release:*'
    """
    return (_RELEASE + principal).encode()


def writer_key(writer: str) -> bytes:
    """Return the key of a writer's record."""
    return (_WRITER + writer).encode()


def writer_headers(record: WriterRecord) -> list[tuple[str, str | bytes | None]]:
    """Return the headers of a writer's record.

    Examples:
        >>> writer_headers(WriterRecord("s", 5, 17, version="1.0"))
        [('epoch', b'5'), ('since', b'17'), ('version', b'1.0')]
    """
    since: list[tuple[str, str | bytes | None]] = [] if record.since is None else [(_SINCE, str(record.since).encode())]
    gone = [(_GONE, b"1")] if record.is_gone else []
    version = [(_VERSION, record.version.encode())] if record.version else []
    return [(_EPOCH, str(record.epoch).encode()), *since, *gone, *version]


def is_of_writer(key: bytes | None) -> bool:
    """Return whether a record with this key is a writer's record, and so neither a hold nor a release."""
    return (key or b"").startswith(_WRITER.encode())


def parse_writer_record(key: bytes | None, headers: Headers) -> WriterRecord | None:
    """Return a writer's record, or None if the record is none.

    Examples:
        >>> parse_writer_record(writer_key("s"), [("epoch", b"5")])
        WriterRecord(writer='s', epoch=5, since=None, is_gone=False, version='')
        >>> parse_writer_record(writer_key("s"), []) is None
        True
    """
    if not is_of_writer(key):
        return None
    found = dict(headers)
    try:
        writer = (key or b"").decode().removeprefix(_WRITER)
        epoch, since = (_number(found.get(name)) for name in (_EPOCH, _SINCE))
        version = found.get(_VERSION) or b""
        version = version if isinstance(version, str) else version.decode()
    except (ValueError, UnicodeDecodeError):
        return None
    return None if epoch is None or not writer else WriterRecord(writer, epoch, since, _GONE in found, version)


def _number(value: str | bytes | None) -> int | None:
    """Return a whole number that is not negative. Raises ValueError for anything else."""
    if value is None:
        return None
    if not value.isdigit() or len(value) > 18:
        msg = "no number"
        raise ValueError(msg)
    return int(value)


def parse_hold_record(key: bytes | None, value: bytes | None) -> HoldRecord | None:
    """Return a record of the topic, or None if it is neither a hold nor a release of a known version.

    Examples:
        >>> parse_hold_record(b"User:a", b'{"version":2}') is None
        True
        >>> parse_hold_record(b"release:User:a", None)
        HoldRecord(principal='User:a', is_release=True, content=None)
    """
    if is_of_writer(key):
        return None
    try:
        text = (key or b"").decode()
        is_release = text.startswith(_RELEASE)
        principal = text.removeprefix(_RELEASE)
        if not principal:
            return None
        if value is None:
            return HoldRecord(principal, is_release, None)
        _versioned.decode(value)
        content: Hold | Release = _release.decode(value) if is_release else _hold.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return HoldRecord(principal, is_release, content)

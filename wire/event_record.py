"""Version 2 of a record of `produce-events`: several events of one principal on one broker, in order.

`docs/events.md` defines both versions.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec

from wire.records import ProduceEvent

EVENTS_VERSION = 2
"""The version with several events per record. Version 1 has one."""
MAX_EVENTS = 1000
MAX_RECORD_BYTES = 100_000
"""Approximate maximum size; a record of one event may be larger."""

_BYTES_OF_AN_EVENT = 60
"""Maximum size of an event's time, id, epoch, partition and index of its group."""
_BYTES_OF_A_GROUP = 165
"""Maximum size of a group without its texts."""
_FIT = 2**62
"""The difference of two numbers within this bound fits into int64."""


class EventGroup(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The fields that several events of a record share; see `ProduceEvent`."""

    topic: str = ""
    client_id: str | None = None
    transactional_id: str | None = None
    correction: bool = False
    repeated: bool = False
    learning: bool = False
    asked_at_ms: int | None = None
    address: str | None = None


_shared_of = attrgetter(*EventGroup.__struct_fields__)


class EventRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of version 2, keyed by principal. Events are ordered by their record's offset, then by their index.

    Attributes:
        timestamp_ms: broker time of the first event, ms since the epoch.
        after_ms: time of each event, in ms after `timestamp_ms`; may be negative.
        groups: the fields that events share; empty if all events have the defaults.
        group: index of each event's group in `groups`; None if all are 0.
        producer_epochs: epoch of each event; None if all are 0.
        partitions: partition of each event; None if unknown.
    """

    version: int
    timestamp_ms: int
    principal: str
    after_ms: list[int]
    producer_ids: list[int]
    broker_id: int | None = None
    groups: list[EventGroup] = []
    group: list[int] | None = None
    producer_epochs: list[int] | None = None
    partitions: list[int] | None = None

    def key(self) -> bytes:
        """Return the key: the principal."""
        return self.principal.encode()

    def events(self) -> Iterator[ProduceEvent]:
        """Yield the events in order.

        Raises:
            msgspec.ValidationError: If there are no events, lists differ in length, or an index is out of range.
        """
        size = len(self.producer_ids)
        columns = (self.after_ms, self.group, self.producer_epochs, self.partitions)
        groups = self.groups or [EventGroup()]
        if not size or any(column is not None and len(column) != size for column in columns):
            msg = "lists of a record are of different lengths, or empty"
            raise msgspec.ValidationError(msg)
        if self.group is not None and not all(0 <= each < len(groups) for each in self.group):
            msg = "group is out of range"
            raise msgspec.ValidationError(msg)
        for index, producer_id in enumerate(self.producer_ids):
            shared = groups[self.group[index] if self.group else 0]
            yield ProduceEvent(
                timestamp_ms=self.timestamp_ms + self.after_ms[index],
                principal=self.principal,
                producer_id=producer_id,
                producer_epoch=self.producer_epochs[index] if self.producer_epochs else 0,
                broker_id=self.broker_id,
                partition=self.partitions[index] if self.partitions else -1,
                **msgspec.structs.asdict(shared),
            )


class _EitherVersion(msgspec.Struct):
    version: int = 1


class _EventOfVersion1(EventGroup, frozen=True, kw_only=True):
    """A record of version 1. Only the fields that the quota rules need are required."""

    timestamp_ms: int
    principal: str
    producer_id: int
    producer_epoch: int = 0
    broker_id: int | None = None
    partition: int = -1


class _Counted(msgspec.Struct):
    producer_ids: list[int] = []


class _Addressed(msgspec.Struct):
    address: str | None = None


class _Placed(msgspec.Struct):
    principal: str
    address: str | None = None
    groups: list[_Addressed] = []


_placed = msgspec.json.Decoder(_Placed)
_version = msgspec.json.Decoder(_EitherVersion)
_counted = msgspec.json.Decoder(_Counted)
_version_1 = msgspec.json.Decoder(_EventOfVersion1)
_version_2 = msgspec.json.Decoder(EventRecord)


def events_of(value: bytes) -> list[ProduceEvent]:
    """Return the events of a record of either version. Missing fields have their defaults; a missing partition is -1.

    Raises:
        msgspec.MsgspecError: If the value is not such a record.
    """
    version = _version.decode(value).version
    if version == 1:
        return [msgspec.convert(_version_1.decode(value), ProduceEvent, from_attributes=True)]
    if version == EVENTS_VERSION:
        return list(_version_2.decode(value).events())
    msg = f"version is {version}, not 1 or {EVENTS_VERSION}"
    raise msgspec.ValidationError(msg)


def count_events(value: bytes) -> int:
    """Return the number of events in a record of either version; 1 for an unreadable record."""
    try:
        return len(_counted.decode(value).producer_ids) or 1
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 1


def addresses_of(value: bytes) -> tuple[str, set[str | None]]:
    """Return the principal of a record of either version, and the addresses of its events. None is an unknown address.

    Raises:
        msgspec.MsgspecError: If the value is not such a record.

    Examples:
        >>> addresses_of(b'{"principal":"User:m","groups":[{"address":"10.0.0.5"}]}')
        ('User:m', {'10.0.0.5'})
    """
    found = _placed.decode(value)
    return found.principal, {each.address for each in found.groups} or {found.address}


def pack_events(events: Iterable[ProduceEvent]) -> Iterator[ProduceEvent | EventRecord]:
    """Pack events of one principal and broker into few records, in order.

    A single event makes a record of version 1, which is shorter. If a time or id is beyond 2**62, each event makes its
    own record, because readers reject the whole record if one number is beyond int64.
    """
    every = list(events)
    for begin in range(0, len(every), MAX_EVENTS):
        yield from _pack(every[begin : begin + MAX_EVENTS])


def _pack(events: list[ProduceEvent]) -> Iterator[ProduceEvent | EventRecord]:
    times, pids = [each.timestamp_ms for each in events], [each.producer_id for each in events]
    if len(events) == 1 or not -_FIT <= min(*times, *pids) <= max(*times, *pids) < _FIT:
        yield from events
        return
    shared = [_shared_of(each) for each in events]
    groups = {each: number for number, each in enumerate(dict.fromkeys(shared))}
    texts = sum(len(text) for each in groups for text in each if isinstance(text, str))
    if _BYTES_OF_AN_EVENT * len(events) + _BYTES_OF_A_GROUP * len(groups) + texts > MAX_RECORD_BYTES:
        middle = len(events) // 2
        yield from _pack(events[:middle])
        yield from _pack(events[middle:])
        return
    first, epochs = events[0], [each.producer_epoch for each in events]
    yield EventRecord(
        EVENTS_VERSION,
        first.timestamp_ms,
        first.principal,
        [each - first.timestamp_ms for each in times],
        pids,
        first.broker_id,
        [EventGroup(*each) for each in groups],
        [groups[each] for each in shared] if len(groups) > 1 else None,
        epochs if any(epochs) else None,
        [each.partition for each in events],
    )

"""A record of the topic `produce-events`: several events of one principal on one broker, in order.

`docs/events.md` defines the record for other writers.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec

MAX_EVENTS = 1000
MAX_RECORD_BYTES = 100_000
"""Approximate maximum size; a record of one event may be larger."""

_BYTES_OF_AN_EVENT = 60
"""Maximum size of an event's time, id, epoch, partition and index of its group."""
_BYTES_OF_A_GROUP = 100
"""Maximum size of a group without its texts."""
_FIT = 2**62
"""The difference of two numbers within this bound fits into int64."""


class ProduceEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A PID that a principal used on a broker.

    Attributes:
        timestamp_ms: broker time of the use, ms since the epoch.
        principal: such as `User:alice`.
        partition: -1 if unknown.
        learning: the PID may be older than the plugin's watch of the broker. If the stream has not seen it, it takes
            no token.
    """

    timestamp_ms: int
    principal: str
    producer_id: int
    producer_epoch: int
    broker_id: int | None
    topic: str
    partition: int
    client_id: str | None = None
    transactional_id: str | None = None
    address: str | None = None
    learning: bool = False


class EventGroup(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The fields that several events of a record share; see `ProduceEvent`."""

    topic: str = ""
    client_id: str | None = None
    transactional_id: str | None = None
    address: str | None = None
    learning: bool = False


_shared_of = attrgetter(*EventGroup.__struct_fields__)


class EventRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record, keyed by principal. Events are ordered by their record's offset, then by their index.

    Attributes:
        timestamp_ms: broker time of the first event, ms since the epoch.
        after_ms: time of each event, in ms after `timestamp_ms`; may be negative.
        groups: the fields that events share; empty if all events have the defaults.
        group: index of each event's group in `groups`; None if all are 0.
        producer_epochs: epoch of each event; None if all are 0.
        partitions: partition of each event; None if unknown.
    """

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


class _Counted(msgspec.Struct):
    producer_ids: list[int] = []


class _Addressed(msgspec.Struct):
    address: str | None = None


class _Placed(msgspec.Struct):
    principal: str
    groups: list[_Addressed] = []


_record = msgspec.json.Decoder(EventRecord)
_placed = msgspec.json.Decoder(_Placed)
_counted = msgspec.json.Decoder(_Counted)


def parse_events(value: bytes) -> list[ProduceEvent]:
    """Return the events of a record. Missing fields have their defaults.

    Raises:
        msgspec.MsgspecError: If the value is not such a record.
    """
    return list(_record.decode(value).events())


def count_events(value: bytes) -> int:
    """Return the number of events in a record; 1 for an unreadable record."""
    try:
        return len(_counted.decode(value).producer_ids) or 1
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 1


def find_addresses(value: bytes) -> tuple[str, set[str | None]]:
    """Return the principal of a record, and the addresses of its events. None is an unknown address.

    Raises:
        msgspec.MsgspecError: If the value is not such a record.

    Examples:
        >>> find_addresses(b'{"principal":"User:m","groups":[{"address":"10.0.0.5"}]}')
        ('User:m', {'10.0.0.5'})
    """
    found = _placed.decode(value)
    return found.principal, {each.address for each in found.groups} or {None}


def pack_events(events: Iterable[ProduceEvent]) -> Iterator[EventRecord]:
    """Pack events of one principal and broker into few records, in order.

    An event whose time or id is beyond 2**62 makes a record of its own, because readers reject the whole record if one
    number is beyond int64.
    """
    every = list(events)
    for begin in range(0, len(every), MAX_EVENTS):
        yield from _pack(every[begin : begin + MAX_EVENTS])


def _pack(events: list[ProduceEvent]) -> Iterator[EventRecord]:
    if len(events) > 1 and not (_fits_together(events) and _size_bytes(events) <= MAX_RECORD_BYTES):
        middle = len(events) // 2
        yield from _pack(events[:middle])
        yield from _pack(events[middle:])
        return
    shared = [_shared_of(each) for each in events]
    groups = {each: number for number, each in enumerate(dict.fromkeys(shared))}
    first, epochs, partitions = events[0], [each.producer_epoch for each in events], [each.partition for each in events]
    yield EventRecord(
        first.timestamp_ms,
        first.principal,
        [each.timestamp_ms - first.timestamp_ms for each in events],
        [each.producer_id for each in events],
        first.broker_id,
        [EventGroup(*each) for each in groups],
        [groups[each] for each in shared] if len(groups) > 1 else None,
        epochs if any(epochs) else None,
        partitions if any(each != -1 for each in partitions) else None,
    )


def _fits_together(events: list[ProduceEvent]) -> bool:
    return all(-_FIT <= number < _FIT for each in events for number in (each.timestamp_ms, each.producer_id))


def _size_bytes(events: list[ProduceEvent]) -> int:
    """Return a bound for the size of a record of ASCII texts."""
    groups = {_shared_of(each) for each in events}
    texts = sum(len(text) for each in groups for text in each if isinstance(text, str))
    return _BYTES_OF_AN_EVENT * len(events) + _BYTES_OF_A_GROUP * len(groups) + texts

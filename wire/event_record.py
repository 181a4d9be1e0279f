"""A record of the topic `produce-events`: several events of one principal on one broker, in order.

`docs/events.md` defines the record for other writers.
"""

from collections.abc import Iterator

import msgspec

MAX_EVENTS = 1000


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


_record = msgspec.json.Decoder(EventRecord)
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

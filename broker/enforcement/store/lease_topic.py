"""The lease topic: open leases and release orders.

A lease's last record stays until the table has this record. A user that can write to the topic can loosen quotas.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from broker.closing import Closing
from broker.enforcement.lock import LOCK_PARTITION
from broker.enforcement.model import (
    ENTITY_TYPES,
    QUOTA_LEVERS,
    EnforcementRecord,
    LeaseRecord,
    ReleaseOrder,
    Target,
    open_leases,
)
from broker.errors import BrokerError, LeaseStoreError
from broker.kafka.tail import BAD_VALUE_ERRORS, TopicReader
from broker.kafka.topics import require_topic
from tables.errors import TableError, TableNotFoundError
from wire.topics import ENFORCER_TOPIC

_TIMEOUT_S = 3.0
"""Timeout, which limits how long a deleted topic delays the end of due leases. Unwritten records stay pending."""
_FIRST_READ_S = 15.0
_LEASE, _RELEASE = "lease/", "release/"
_RELEASE_ALL = "release"

_LEASE_ID = re.compile("[0-9a-z]{1,32}")
"""Form of a lease id, which is part of the name in a hold's ACL."""
_YEAR_10000_MS = 253_402_300_800_000

Kept = LeaseRecord | ReleaseOrder

_lease = msgspec.json.Decoder(LeaseRecord).decode
_order = msgspec.json.Decoder(ReleaseOrder).decode


class LeaseTopic(Closing):
    """The newest record of each lease, and the newest order per principal. It is not thread-safe."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        # The producer is not idempotent, so that the enforcer needs no producer id.
        more = {"enable.idempotence": "false", "acks": "all", "max.in.flight": "1", "log_level": "0"}
        self._producer = Producer({**settings, **more, "message.timeout.ms": str(round(_TIMEOUT_S * 1000))})
        self._topic: TopicReader | None = None
        self._newest: dict[str, Kept] = {}
        self.bad_records = 0
        self.seen_ms = 0

    def close(self) -> None:
        """Close the producer and the consumer."""
        self._producer.purge()
        self._producer.flush(1)
        self._forget()

    def read(self, *, again: bool = False) -> list[LeaseRecord | ReleaseOrder]:
        """See `LeaseStore.read`. Raises LeaseStoreError."""
        if again:
            self._forget()
        try:
            if self._topic is None:
                timeout_s = _FIRST_READ_S if again else _TIMEOUT_S
                self._topic = TopicReader(self._settings, ENFORCER_TOPIC, timeout_s, group=ENFORCER_TOPIC)
                self._learn(self._topic.read_to_end())
            else:
                self._learn(self._topic.poll())
        except (BrokerError, KafkaException) as error:
            self._forget()
            msg = f"can't read leases from topic {ENFORCER_TOPIC!r}: {error}"
            raise LeaseStoreError(msg) from error
        return list(self._newest.values())

    def append(self, records: Sequence[LeaseRecord | ReleaseOrder]) -> None:
        """See `LeaseStore.append`. Raises LeaseStoreError."""
        self._write([(_key(record), msgspec.json.encode(record)) for record in records])

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Remove leases by tombstones. Raises LeaseStoreError."""
        self._write([(_LEASE + lease_id, None) for lease_id in lease_ids])

    def _write(self, records: Sequence[tuple[str, bytes | None]]) -> None:
        errors: list[KafkaError] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        try:
            for key, value in records:
                self._producer.produce(
                    ENFORCER_TOPIC, key=key.encode(), value=value, partition=LOCK_PARTITION, on_delivery=note
                )
        except KafkaException as error:
            # librdkafka already knows that this user may not write.
            errors.append(error.args[0])
        waiting = self._producer.flush(2 * _TIMEOUT_S)
        if errors or waiting:
            reason = errors[0].str() if errors else "no answer"
            msg = f"can't write a lease to topic {ENFORCER_TOPIC!r} ({reason}): grant this user WRITE on the topic"
            raise LeaseStoreError(msg)

    def _learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            name, value = (message.key() or b"").decode("utf-8", "replace"), message.value()
            timestamp_type, at_ms = message.timestamp()
            if timestamp_type == TIMESTAMP_LOG_APPEND_TIME:
                self.seen_ms = max(self.seen_ms, at_ms)
            if not name.startswith((_LEASE, _RELEASE)) and name != _RELEASE_ALL:
                # The record is a probe of the broker's clock.
                continue
            if not value:
                self._newest.pop(name, None)
                continue
            try:
                record: Kept = _lease(value) if name.startswith(_LEASE) else _order(value)
            except BAD_VALUE_ERRORS:
                self.bad_records += 1
                continue
            if _key(record) == name and _can_be_ours(record):
                self._newest[name] = record
            else:
                self.bad_records += 1

    def _forget(self) -> None:
        topic, self._topic = self._topic, None
        self._newest.clear()
        if topic is not None:
            topic.close()


def _can_be_ours(record: Kept) -> bool:
    """Whether lever, entity and value fit together, and times are possible."""
    if isinstance(record, ReleaseOrder):
        return _are_times(record.recorded_at_ms, record.until_ms)
    lease = record.lease
    entity_types = tuple(entity_type for entity_type, _ in lease.target.entity.parts())
    return (
        _are_times(record.recorded_at_ms, lease.until_ms - 1, lease.set_ms)
        and _LEASE_ID.fullmatch(lease.lease_id) is not None
        and entity_types in ENTITY_TYPES[lease.target.lever]
        and (lease.value is not None) == (lease.target.lever in QUOTA_LEVERS)
    )


def _are_times(*times_ms: int) -> bool:
    return all(0 <= each < _YEAR_10000_MS for each in times_ms)


def _key(record: Kept) -> str:
    if isinstance(record, LeaseRecord):
        return _LEASE + record.lease.lease_id
    return _RELEASE_ALL if record.principal is None else _RELEASE + record.principal


def kept_leases(settings: Mapping[str, str]) -> list[LeaseRecord | ReleaseOrder]:
    """Read the lease topic without creating it."""
    # Check before creating a consumer: for a consumer, brokers would create the topic `__consumer_offsets`.
    require_topic(settings, ENFORCER_TOPIC)
    with LeaseTopic(settings) as kept:
        return kept.read(again=True)


def leases_of_others(
    kept: Callable[[], Sequence[EnforcementRecord]], logged: Callable[[], Sequence[EnforcementRecord]]
) -> frozenset[Target] | None:
    """Return the targets of open leases in lease topic (`kept`) and table (`logged`); None if reading fails.

    The table may be missing. A lease has ended if either contains its end.
    """
    try:
        records = list(kept())
        with suppress(TableNotFoundError):
            records += logged()
    except (BrokerError, TableError):
        return None
    return frozenset(open_leases(records))

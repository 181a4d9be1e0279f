"""The lease topic: all it takes to end every lease without the tables, and release orders.

A record per lease holds its newest step. It is written before the quota is set, and removed only when the table has the
lease's last step, so leases end even if the tables are unreadable, gone or empty. Whoever can write this topic can
loosen quotas: grant WRITE to the enforcer alone.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from broker.closing import Closing
from broker.cluster.client_quotas import CONNECTION_CREATION_RATE, REQUEST_PERCENTAGE
from broker.cluster.former_refusals import ALLOWED, REFUSE, REFUSED
from broker.cluster.hold_bindings import HOLD
from broker.cluster.topic_reader import TopicReader
from broker.enforcer.lock import LOCK_PARTITION
from broker.errors import BrokerError, LeaseStoreError
from broker.leases.lease_rules import Action
from wire.topics import ENFORCER_TOPIC

_TIMEOUT_S = 3.0
"""Bounds how long a deleted topic delays leases that are due; unwritten steps stay pending."""
_FIRST_READ_S = 15.0
_LEASE, _HOLD = "lease/", "hold/"
_EVERYBODY = "hold"

_YEAR_10000_MS = 253_402_300_800_000
_ENTITIES = {
    REQUEST_PERCENTAGE: (["user"], ["user", "client-id"]),
    CONNECTION_CREATION_RATE: (["ip"],),
    HOLD: (["user"],),
    REFUSE: (["user"],),
}
"""Entity types of each lever; Kafka refuses all others."""

_decode = msgspec.json.Decoder(Action).decode


class LeaseTopic(Closing):
    """Newest step of each lease, and newest order per principal. Not thread-safe.

    Args:
        settings: confluent-kafka settings of a user with READ and WRITE on the topic.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        # Not idempotent: an enforcer has no producer id.
        more = {"enable.idempotence": "false", "acks": "all", "max.in.flight": "1", "log_level": "0"}
        self._producer = Producer({**settings, **more, "message.timeout.ms": str(round(_TIMEOUT_S * 1000))})
        self._topic: TopicReader | None = None
        self._newest: dict[str, Action] = {}
        self.bad_records = 0

    def close(self) -> None:
        """Close the producer and the consumer."""
        self._producer.purge()
        self._producer.flush(1)
        self._forget()

    def read(self, *, again: bool = False) -> list[Action]:
        """Return the newest step of each stored lease, and the orders.

        Args:
            again: Reread the whole topic; otherwise poll for new records without blocking.

        Raises:
            LeaseStoreError: If the topic can't be read.
        """
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

    def append(self, actions: Sequence[Action]) -> None:
        """Store steps and orders; return once the brokers have acknowledged them.

        Raises:
            LeaseStoreError: If any was not acknowledged.
        """
        self._write([(_key(action), msgspec.json.encode(action)) for action in actions])

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Remove leases (tombstones); raises as `append`."""
        self._write([(_LEASE + lease_id, None) for lease_id in lease_ids])

    def _write(self, records: Sequence[tuple[str, bytes | None]]) -> None:
        errors: list[KafkaError] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        for key, value in records:
            self._producer.produce(
                ENFORCER_TOPIC, key=key.encode(), value=value, partition=LOCK_PARTITION, on_delivery=note
            )
        waiting = self._producer.flush(2 * _TIMEOUT_S)
        if errors or waiting:
            reason = errors[0].str() if errors else "no answer"
            msg = f"can't write a lease to topic {ENFORCER_TOPIC!r} ({reason}): grant this user WRITE on the topic"
            raise LeaseStoreError(msg)

    def _learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._take(message)

    def _take(self, message: Message) -> None:
        key, value = message.key() or b"", message.value()
        name = key.decode("utf-8", "replace")
        if not name.startswith((_LEASE, _HOLD)) and name != _EVERYBODY:
            # A probe of the broker's clock.
            return
        if not value:
            self._newest.pop(name, None)
            return
        try:
            action = _decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.bad_records += 1
            return
        if _key(action) == name and _can_be_ours(action):
            self._newest[name] = action
        else:
            self.bad_records += 1

    def _forget(self) -> None:
        topic, self._topic = self._topic, None
        self._newest.clear()
        if topic is not None:
            topic.close()


def _can_be_ours(action: Action) -> bool:
    """Whether an enforcer can have written it: only its own levers, and times that a timestamp can hold."""
    lease = action.lease
    times = [action.recorded_at_ms, action.until_ms or 0, *((lease.until_ms, lease.set_ms) if lease else ())]
    if lease and lease.quota_key == HOLD:
        times.append(lease.enforced)
    if not all(0 <= each < _YEAR_10000_MS for each in times):
        return False
    if lease is None:
        return action.state == "hold"
    if lease.entity.is_hold != (lease.quota_key in (HOLD, REFUSE)):
        return False
    if lease.quota_key == REFUSE and (lease.previous not in (None, ALLOWED) or lease.enforced != REFUSED):
        return False
    return [kind for kind, _ in lease.entity.parts()] in _ENTITIES.get(lease.quota_key, ())


def _key(action: Action) -> str:
    if action.lease is not None:
        return _LEASE + action.lease.lease_id
    return _EVERYBODY if action.principal is None else _HOLD + action.principal

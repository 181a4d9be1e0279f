"""Produces the tap's records to their topics and tracks delivery."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from broker.errors import TapDeliveryError
from wire.event_record import EventRecord, pack_events
from wire.records import ProduceEvent, ProducerIdBlock, ProducerInit, Record
from wire.topics import PRODUCER_ID_BLOCKS, PRODUCER_INITS, TAP_STATUS

_QUEUE_FULL_WAIT_S = 0.1
_BROKERS_TIMEOUT_S = 1.0

PRODUCER_SETTINGS: dict[str, str | int | float | bool] = {
    "client.id": "pid-quota-tap",
    # Deliver in order and without duplicates, and wait for all in-sync replicas.
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "compression.type": "lz4",
    # Java clients use the same partitioner, so other programs write a principal to the same partition.
    "partitioner": "murmur2_random",
    # `flush` tells when all records are delivered.
    "delivery.report.only.error": True,
    # Log only errors. A coordinator that is still loading on a new broker needs no warning.
    "log_level": 3,
}


def pack_round(events: Iterable[ProduceEvent]) -> Iterator[ProduceEvent | EventRecord]:
    """Pack the events of a round into records, in order for each principal."""
    by_principal: dict[str, list[ProduceEvent]] = {}
    for event in events:
        by_principal.setdefault(event.principal, []).append(event)
    for of_principal in by_principal.values():
        # All events of a record are from one broker.
        for _, of_broker in groupby(of_principal, attrgetter("broker_id")):
            yield from pack_events(of_broker)


class TapOutput:
    """The tap's producer for all topics."""

    def __init__(self, config: Mapping[str, str], events_topic: str) -> None:
        self._servers = config["bootstrap.servers"]
        self._producer = Producer({**config, **PRODUCER_SETTINGS}, on_delivery=self._on_delivery)
        self._topics: dict[type[msgspec.Struct], str] = {
            ProduceEvent: events_topic,
            EventRecord: events_topic,
            ProducerInit: PRODUCER_INITS,
            ProducerIdBlock: PRODUCER_ID_BLOCKS,
        }
        self._events: list[ProduceEvent] = []
        self._encode = msgspec.json.Encoder().encode
        self._error: KafkaError | None = None
        self._refused_by: str | None = None
        self._unsettled = False

    def send(self, record: Record, stopped: Callable[[], bool]) -> None:
        """Produce a record, or queue a produce event until `send_events`. This blocks while Kafka is too slow."""
        if record.__class__ is ProduceEvent:
            self._events.append(record)
        else:
            self._produce(record, stopped)

    def send_events(self, stopped: Callable[[], bool]) -> None:
        """Produce the events queued since the last call."""
        events, self._events = self._events, []
        for record in pack_round(events):
            self._produce(record, stopped)

    def send_status(self, key: bytes, heartbeat: msgspec.Struct) -> None:
        """Produce a heartbeat; drop it if the queue is full."""
        try:
            self._producer.produce(TAP_STATUS, value=self._encode(heartbeat), key=key)
        except BufferError:
            return
        self._unsettled = True

    def brokers(self) -> list[int]:
        """Return the ids of the cluster's brokers; none if no broker answers within a second."""
        try:
            return sorted(self._producer.list_topics(TAP_STATUS, _BROKERS_TIMEOUT_S).brokers)
        except KafkaException:
            return []

    def flush(self, timeout_s: float) -> int:
        """Wait for delivery of all records. Return the number of undelivered records."""
        if not self._unsettled:
            return 0
        left = self._producer.flush(timeout_s)
        self.check()
        self._unsettled = left > 0
        return left

    def close(self) -> None:
        """Close the producer, and drop undelivered records."""
        self._producer.purge()
        # The producer's callback refers to this object. Without `del`, the producer's threads run until the next
        # garbage collection.
        del self._producer

    def check(self) -> None:
        """Process delivery reports. Raises TapDeliveryError if Kafka refused a record."""
        self._producer.poll(0)
        if self._error is not None:
            raise _refused(self._refused_by, self._error)

    def undelivered(self, left: int) -> TapDeliveryError:
        """Return the error for a tap that stops with `left` records undelivered."""
        records = "record was" if left == 1 else "records were"
        return TapDeliveryError(
            f"{left:,} {records} not delivered to {self._servers} before the tap stopped: check the brokers and start "
            f"the tap again, which resends them"
        )

    def _produce(self, record: Record | EventRecord, stopped: Callable[[], bool]) -> None:
        topic, key, value = self._topics[type(record)], record.key(), self._encode(record)
        while True:
            try:
                self._producer.produce(topic, value=value, key=key)
            except BufferError:
                self._producer.poll(_QUEUE_FULL_WAIT_S)
                self.check()
                if stopped():
                    raise self.undelivered(len(self._producer)) from None
            except KafkaException as error:
                raise _refused(topic, error.args[0]) from error
            else:
                self._unsettled = True
                return

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._error, self._refused_by = error, message.topic()


def _refused(topic: str | None, error: KafkaError) -> TapDeliveryError:
    return TapDeliveryError(
        f"topic {topic!r} refused an event ({error.str()}): check the topic's settings and WRITE on it, then start the "
        f"tap again"
    )

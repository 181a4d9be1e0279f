"""Hands the tap's records to Kafka, each to its topic, and says when all have arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from broker.errors import TapDeliveryError
from wire.records import Binding, ProduceEvent, ProduceFailure, ProducerIdBlock, ProducerInit, Record
from wire.topics import PRODUCE_FAILURES, PRODUCER_ID_BLOCKS, PRODUCER_INITS, PRODUCER_PRINCIPALS, TAP_STATUS

_QUEUE_FULL_WAIT_S = 0.1
_BROKERS_TIMEOUT_S = 1.0

PRODUCER_SETTINGS: dict[str, str | int | float | bool] = {
    "client.id": "pid-quota-tap",
    # In order, without repeats, and taken by all replicas in sync.
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "compression.type": "lz4",
    # That of the Java clients, so that other writers of such events put a principal into the same partition.
    "partitioner": "murmur2_random",
    # Success needs no callback of ours: `flush` tells that nothing is left.
    "delivery.report.only.error": True,
    # Errors only: that the coordinator of a fresh broker still loads is nothing to write home about.
    "log_level": 3,
}
"""Of all that write produce events."""


class TapOutput:
    """One producer for all topics."""

    def __init__(self, config: Mapping[str, str], events_topic: str) -> None:
        """Connect when the first record comes.

        Args:
            config: confluent-kafka settings of someone who may write our topics.
            events_topic: where produce events go.
        """
        self._servers = config["bootstrap.servers"]
        self._producer = Producer({**config, **PRODUCER_SETTINGS}, on_delivery=self._on_delivery)
        self._topics: dict[type[msgspec.Struct], str] = {
            ProduceEvent: events_topic,
            Binding: PRODUCER_PRINCIPALS,
            ProducerInit: PRODUCER_INITS,
            ProducerIdBlock: PRODUCER_ID_BLOCKS,
            ProduceFailure: PRODUCE_FAILURES,
        }
        self._encode = msgspec.json.Encoder().encode
        self._error: KafkaError | None = None
        self._refused_by: str | None = None
        self._unsettled = False

    def send(self, record: Record, stopped: Callable[[], bool]) -> None:
        """Hand over one record; waits while Kafka is slower than the log, which is on disk.

        Raises:
            TapDeliveryError: a record was refused, or `stopped` became true while waiting.
        """
        self._send(self._topics[type(record)], record.key(), self._encode(record), stopped)

    def send_status(self, key: bytes, heartbeat: msgspec.Struct) -> None:
        """Hand over a heartbeat; one that cannot be sent now is not worth waiting for."""
        try:
            self._producer.produce(TAP_STATUS, value=self._encode(heartbeat), key=key)
        except BufferError:
            return
        self._unsettled = True

    def brokers(self) -> list[int]:
        """Ids of the brokers that the cluster has now, as far as it can be said soon; empty if it can't."""
        try:
            return sorted(self._producer.list_topics(TAP_STATUS, _BROKERS_TIMEOUT_S).brokers)
        except KafkaException:
            return []

    def flush(self, timeout_s: float) -> int:
        """Wait until all has arrived; returns how many records have not.

        Raises:
            TapDeliveryError: one was refused.
        """
        if not self._unsettled:
            return 0
        left = self._producer.flush(timeout_s)
        self.check()
        self._unsettled = left > 0
        return left

    def close(self) -> None:
        """Let go of the connections, and of what was not delivered: it is behind the position that was kept."""
        self._producer.purge()
        # It refers to us by its callback: its threads would run until the garbage collector comes by.
        del self._producer

    def check(self) -> None:
        """Take what Kafka answered.

        Raises:
            TapDeliveryError: a record was refused.
        """
        self._producer.poll(0)
        if self._error is not None:
            msg = (
                f"an event was refused by topic {self._refused_by!r} ({self._error.str()}): "
                f"check the topic's settings and the right to write it, then start the tap again"
            )
            raise TapDeliveryError(msg)

    def undelivered(self, left: int) -> TapDeliveryError:
        """What to raise if the tap has to stop with that many records left."""
        return TapDeliveryError(
            f"{left} events were not taken by {self._servers} before the tap had to stop: "
            f"check the broker and start the tap again, it goes on before them"
        )

    def _send(self, topic: str, key: bytes, value: bytes, stopped: Callable[[], bool]) -> None:
        while True:
            try:
                self._producer.produce(topic, value=value, key=key)
            except BufferError:
                self._producer.poll(_QUEUE_FULL_WAIT_S)
                self.check()
                if stopped():
                    raise self.undelivered(len(self._producer)) from None
            else:
                self._unsettled = True
                return

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._error, self._refused_by = error, message.topic()

"""Reads lines from a Kafka topic, to which a shipper such as Fluent Bit writes.

A record's value is a line, or an object with the line as `message` or `log`. All lines of a broker must be in one
partition, in order. A line out of order counts as a loss.
"""

from collections.abc import Mapping

import msgspec
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from broker.errors import BrokerUnreachableError, TapError
from broker.kafka.errors import reason_of
from broker.kafka.tail import BAD_VALUE_ERRORS, bounds
from broker.kafka.topics import require_topic
from broker.log.sources import LineBatch, SourceCounters
from wire.heartbeat import Position, TopicPosition

_BATCH = 5_000
_WAIT_S = 0.1
_TIMEOUT_S = 15.0


class _Wrapper(msgspec.Struct, gc=False):
    number: object = None
    message: str | None = None
    log: str | None = None


_decode_wrapper = msgspec.json.Decoder(_Wrapper).decode


def unwrap(value: bytes) -> bytes:
    r"""Return the line in a shipper's record.

    Examples:
        >>> unwrap(b'{"log": "{\\"number\\": 1}\\n", "host": "b1"}')
        b'{"number": 1}'
    """
    try:
        wrapper = _decode_wrapper(value)
    except BAD_VALUE_ERRORS:
        return value.rstrip(b"\r\n")
    if wrapper.number is not None:
        # The value is a line of the class, perhaps with added fields.
        return value
    text = wrapper.message if wrapper.message is not None else wrapper.log
    return value if text is None else text.rstrip("\r\n").encode()


class TopicSource:
    """A source of lines in all partitions of a topic. The position file, not a group, stores the offsets.

    `from_end` starts at the end if no position is saved.
    """

    kind = "topic"

    def __init__(
        self, config: Mapping[str, str], topic: str, *, broker_id: int | None = None, from_end: bool = False
    ) -> None:
        self._config = config
        self._topic = topic
        self._broker_id = broker_id
        self.brokers = [] if broker_id is None else [broker_id]
        self._from_end = from_end
        self._consumer: Consumer | None = None
        self._offsets: dict[int, int] = {}
        self._sent_up_to: dict[int, int] = {}
        self._lines = 0
        self._losses = 0

    def open(self, position: Position | None, sent_up_to: Position | None) -> None:
        """Open the topic."""
        if position is not None and (not isinstance(position, TopicPosition) or position.topic != self._topic):
            msg = f"the position file does not belong to topic {self._topic!r}: use another position file"
            raise TapError(msg)
        partitions = range(require_topic(self._config, self._topic))
        settings: dict[str, str | int | float | bool] = {"group.id": "pid-quota-tap", "enable.auto.commit": False}
        # If the record at the position was deleted, all remaining records are new.
        settings |= {"auto.offset.reset": "earliest", "log_level": 3}
        self._consumer = Consumer({**self._config, **settings})
        saved = position.offsets if isinstance(position, TopicPosition) else {}
        self._offsets = dict(saved)
        self._sent_up_to = dict(sent_up_to.offsets) if isinstance(sent_up_to, TopicPosition) else {}
        to_end = self._from_end and position is None
        for number in partitions:
            # Look up the offset as a number, so that the tap can save it before the first record.
            self._offsets.setdefault(number, self._bound(self._consumer, number, to_end=to_end))
        self._consumer.assign([TopicPartition(self._topic, number, at) for number, at in self._offsets.items()])

    def read(self) -> list[LineBatch]:
        """Return the next lines by partition, in order."""
        batches: list[LineBatch] = []
        newest: dict[int, LineBatch] = {}
        for message in self._consume():
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            lost = offset > self._offsets[partition] and self._is_deleted(partition, self._offsets[partition])
            self._losses += lost
            self._offsets[partition] = offset + 1
            repeated = offset < self._sent_up_to.get(partition, 0)
            batch = newest.get(partition)
            if batch is None or lost or batch.repeated != repeated:
                batch = LineBatch(f"partition {partition}", self._broker_id, [], repeated, lost)
                newest[partition] = batch
                batches.append(batch)
            batch.lines.append(unwrap(message.value() or b""))
            self._lines += 1
        return batches

    @property
    def position(self) -> TopicPosition | None:
        """The position after the last returned record."""
        return TopicPosition(self._topic, dict(self._offsets)) if self._offsets else None

    @property
    def lag(self) -> int:
        """Number of records not read yet, from cached watermarks."""
        if self._consumer is None:
            return 0
        behind = 0
        for partition, offset in self._offsets.items():
            _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            behind += max(0, end - offset)
        return behind

    @property
    def counters(self) -> SourceCounters:
        """Counters since the start."""
        return SourceCounters(self._lines, lost_files=self._losses)

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _consume(self) -> list[Message]:
        if self._consumer is None:
            return []
        messages = self._consumer.consume(_BATCH, _WAIT_S)
        for message in messages:
            error = message.error()
            if error is not None and not error.retriable():
                msg = f"can't read topic {self._topic!r} ({error.str()}): check READ on it"
                raise BrokerUnreachableError(msg)
        return [message for message in messages if message.error() is None]

    def _is_deleted(self, partition: int, offset: int) -> bool:
        """Whether the record at an offset was deleted. Other gaps in offsets are transaction markers of the shipper."""
        if self._consumer is None:
            return True
        try:
            first, _ = bounds(self._consumer, self._topic, partition, _TIMEOUT_S)
        except KafkaException:
            return True
        return offset < first

    def _bound(self, consumer: Consumer, partition: int, *, to_end: bool) -> int:
        try:
            first, end = bounds(consumer, self._topic, partition, _TIMEOUT_S)
        except KafkaException as error:
            msg = f"can't read the offsets of topic {self._topic!r} ({reason_of(error)}): check READ on it"
            raise BrokerUnreachableError(msg) from error
        return end if to_end else first

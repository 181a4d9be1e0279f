"""Reads and follows a topic without joining a group."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from broker.closing import Closing
from broker.errors import BrokerUnreachableError, TopicMissingError
from broker.kafka.errors import name_of, reason_of
from broker.kafka.roles import OUR_GROUPS

_BATCH = 10_000
_TIMEOUT_S = 15.0
_READ_TIMEOUT_S = 0.5
_RETRY_S = 0.1
_PASSING = {
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_PARTITION",
    "_TRANSPORT",
    # librdkafka reports this when it closes the connection to a leader that has just died.
    "_DESTROY",
}


BAD_VALUE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors that msgspec's decoders raise if another program wrote the value."""
Decoded = TypeVar("Decoded")


def decode_values(messages: Iterable[Message], decode: Callable[[bytes], Decoded]) -> Iterator[Decoded]:
    """Decode the values of messages. Skip tombstones and values of other programs."""
    for message in messages:
        try:
            yield decode(message.value() or b"")
        except BAD_VALUE_ERRORS:
            continue


def bounds(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """Return the earliest offset and the end of a partition. Retry while the partition is being created or moved."""
    give_up_at = time.monotonic() + timeout_s
    while True:
        try:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout_s)
        except KafkaException as error:
            if name_of(error) not in _PASSING or time.monotonic() > give_up_at:
                raise
            time.sleep(_RETRY_S)
        else:
            return first, end


class TopicReader(Closing):
    """A consumer of all partitions of a topic, or of one. It commits no offsets."""

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        timeout_s: float = _TIMEOUT_S,
        start: int | None = None,
        only: int | None = None,
    ) -> None:
        """Begin to fetch.

        `start` is a time in ms since the epoch, by default the beginning. `only` is a partition.
        """
        self._config = config
        self._topic = topic
        self._timeout_s = timeout_s
        # librdkafka requires a group, which this consumer neither joins nor writes to.
        settings: dict[str, str | int | float | bool] = {"group.id": OUR_GROUPS, "enable.auto.commit": False}
        settings |= {"auto.offset.reset": "earliest", "enable.partition.eof": False, "log_level": 0}
        self._consumer = Consumer({**config, **settings})
        try:
            self.partitions = self._partitions() if only is None else [only]
            found = {number: bounds(self._consumer, topic, number, timeout_s) for number in self.partitions}
            starts = self._starts(start, found)
            self._ends = {number: (max(first, starts[number]), end) for number, (first, end) in found.items()}
            # Assign only once: records of a first assignment could arrive after a second assignment.
            self._consumer.assign([TopicPartition(topic, number, offset) for number, offset in starts.items()])
        except KafkaException as error:
            self._consumer.close()
            raise self._unreadable(error) from error
        except TopicMissingError:
            self._consumer.close()
            raise

    def _partitions(self) -> list[int]:
        about = self._consumer.list_topics(self._topic, self._timeout_s).topics[self._topic]
        if about.error is not None or not about.partitions:
            servers = self._config["bootstrap.servers"]
            msg = f"no topic {self._topic!r} on {servers}: create it with `pid-quota topics create`"
            raise TopicMissingError(msg)
        return sorted(about.partitions)

    def _starts(self, start: int | None, found: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        if start is None:
            return dict.fromkeys(found, OFFSET_BEGINNING)
        starts = {number: end for number, (_, end) in found.items()}
        asked = [TopicPartition(self._topic, number, start) for number in found]
        answers = self._consumer.offsets_for_times(asked, self._timeout_s)
        return starts | {at.partition: at.offset for at in answers if at.offset >= 0}

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def read_to_end(self) -> Iterator[Message]:
        """Yield all records that existed when the reader was created, and perhaps newer records."""
        missing = {number: end for number, (low, end) in self._ends.items() if low < end}
        give_up_at = time.monotonic() + self._timeout_s
        while missing:
            messages = self._consume(_READ_TIMEOUT_S)
            if messages:
                give_up_at = time.monotonic() + self._timeout_s
            yield from messages
            # The last offsets may belong to transaction markers or compacted records, which never arrive.
            for at in self._consumer.position([TopicPartition(self._topic, number) for number in missing]):
                if at.offset >= missing.get(at.partition, 0):
                    missing.pop(at.partition, None)
            if missing and time.monotonic() > give_up_at:
                msg = f"topic {self._topic!r} was not read to its end within {self._timeout_s:g} s: check READ on it"
                raise BrokerUnreachableError(msg)

    def poll(self, wait_s: float = 0) -> list[Message]:
        """Return new records. If there are none, wait up to `wait_s`."""
        return self._consume(wait_s, 1 if wait_s else _BATCH)

    def _consume(self, timeout_s: float, most: int = _BATCH) -> list[Message]:
        try:
            messages = self._consumer.consume(most, timeout_s)
        except KafkaException as error:
            raise self._unreadable(error) from error
        for message in messages:
            answer = message.error()
            if answer is not None and not answer.retriable():
                raise self._unreadable(KafkaException(answer))
        return [message for message in messages if message.error() is None]

    def _unreadable(self, error: KafkaException) -> BrokerUnreachableError:
        reason = reason_of(error)
        return BrokerUnreachableError(
            f"topic {self._topic!r} of {self._config['bootstrap.servers']} can't be read ({reason}): "
            f"check the address, the listener's security settings and READ on the topic"
        )

"""Reads the oldest and newest records of a topic, and its earliest offsets."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition

from broker.errors import BrokerUnreachableError
from broker.kafka.errors import name_of, reason_of
from broker.kafka.tail import bounds
from broker.kafka.topics import admin_client
from wire.event_record import count_events

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 15.0
_EXTENT_TIMEOUT_S = 60.0
_NEWEST = 200
_WAIT_S = 1.0


@dataclass(frozen=True)
class OldestRecord:
    """The oldest record in a topic.

    `timestamp_ms` is None if the topic is empty. `is_first` is false if older records were deleted.
    """

    timestamp_ms: int | None
    is_first: bool


def oldest_record(config: Mapping[str, str], topic: str) -> OldestRecord:
    """Return the oldest record in an existing topic.

    Raises:
        BrokerUnreachableError: If a partition returns neither a record nor its end in time.
    """
    # After aborted transactions, a partition may have offsets but no records. The consumer then reports its end.
    with reading({**config, "enable.partition.eof": "true"}, topic, "first", _TIMEOUT_S) as (consumer, ranges):
        first = {number: low for number, (low, high) in ranges.items() if low < high}
        consumer.assign([TopicPartition(topic, number, low) for number, low in first.items()])
        oldest: dict[int, int] = {}
        ended: set[int] = set()
        while first.keys() - oldest.keys() - ended:
            message = consumer.poll(_TIMEOUT_S)
            if message is None:
                msg = f"no record of topic {topic!r} came in {_TIMEOUT_S:g} s: check that brokers run, then start again"
                raise BrokerUnreachableError(msg)
            partition, error = int(message.partition() or 0), message.error()
            if error is None:
                oldest.setdefault(partition, message.timestamp()[1])
            elif error.name() == "_PARTITION_EOF":
                ended.add(partition)
            else:
                raise KafkaException(error)
        is_first = not any(low for low, _ in ranges.values())
        return OldestRecord(min(oldest.values(), default=None), is_first)


def events_per_record(config: Mapping[str, str], topic: str) -> float:
    """Return the average number of events per record in the newest records; 1 without records."""
    with reading(config, topic, "newest", _TIMEOUT_S) as (consumer, ranges):
        begins = {number: max(low, high - _NEWEST) for number, (low, high) in ranges.items() if low < high}
        consumer.assign([TopicPartition(topic, number, begin) for number, begin in begins.items()])
        left = sum(ranges[number][1] - begin for number, begin in begins.items())
        counts: list[int] = []
        # No record arrives for the offsets of deleted records and transaction markers.
        while left > len(counts) and (messages := consumer.consume(left - len(counts), _WAIT_S)):
            counts += [count_events(each.value() or b"") for each in messages if each.error() is None]
    return sum(counts) / len(counts) if counts else 1.0


@contextmanager
def reading(
    config: Mapping[str, str], topic: str, which: str, timeout_s: float
) -> Iterator[tuple[Consumer, dict[int, tuple[int, int]]]]:
    """Yield a consumer for a topic, and each partition's first offset and next offset.

    `which`, such as `newest`, is part of the group's name.
    """
    quiet = {"log_level": 0, "group.id": f"pid-quota-{which}-record", "enable.auto.commit": "false"}
    consumer = Consumer({**config, **quiet})
    try:
        partitions = consumer.list_topics(topic, timeout_s).topics[topic].partitions
        yield consumer, {number: bounds(consumer, topic, number, timeout_s) for number in partitions}
    except KafkaException as error:
        reason, is_refused = reason_of(error), "AUTHORIZATION" in name_of(error)
        remedy = "grant READ on topic and group" if is_refused else "check that the brokers run, then start again"
        msg = f"can't read the {which} records of topic {topic!r} ({reason}): {remedy}"
        raise BrokerUnreachableError(msg) from error
    finally:
        consumer.close()


@dataclass(frozen=True)
class TopicExtent:
    """Id and earliest offsets of a topic. A recreated topic has another id."""

    topic_id: str
    earliest: dict[int, int]


class ExtentReader:
    """A reader of a `TopicExtent`. The reader keeps its connections."""

    def __init__(self, config: Mapping[str, str], topic: str) -> None:
        self._config = dict(config)
        self._topic = topic
        self._clients: tuple[AdminClient, Consumer] | None = None

    def __call__(self) -> TopicExtent:
        """Ask the brokers for the current extent."""
        if self._clients is None:
            # librdkafka would log each refused connection to stderr.
            settings = {"log_level": 0, "group.id": "pid-quota-extent", "enable.auto.commit": False}
            self._clients = admin_client(self._config), Consumer({**self._config, **settings})
        admin, consumer = self._clients
        try:
            asked = admin.describe_topics(TopicCollection([self._topic]), request_timeout=_EXTENT_TIMEOUT_S)
            about = asked[self._topic].result()
            ids = [each.id for each in about.partitions]
            earliest = {each: bounds(consumer, self._topic, each, _EXTENT_TIMEOUT_S)[0] for each in ids}
        except KafkaException as error:
            msg = f"can't describe topic {self._topic!r} ({reason_of(error)}): check DESCRIBE on the topic"
            raise BrokerUnreachableError(msg) from error
        return TopicExtent(str(about.topic_id), earliest)

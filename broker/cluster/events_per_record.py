"""How many events the newest records of a topic of produce events hold."""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from broker.cluster.topic_reader import bounds
from broker.errors import BrokerUnreachableError
from wire.event_record import count_events

_NEWEST = 200
_TIMEOUT_S = 15.0
_WAIT_S = 1.0


def events_per_record(config: Mapping[str, str], topic: str, timeout_s: float = _TIMEOUT_S) -> float:
    """Return the mean over the newest records of each partition; 1 for an empty topic.

    Args:
        config: confluent-kafka settings.
        topic: Its name; it must exist.
        timeout_s: Request timeout.

    Raises:
        BrokerUnreachableError: If the records can't be read.
    """
    quiet = {"log_level": 0, "group.id": "pid-quota-newest-records", "enable.auto.commit": "false"}
    consumer = Consumer({**config, **quiet})
    try:
        partitions = consumer.list_topics(topic, timeout_s).topics[topic].partitions
        ranges = {number: bounds(consumer, topic, number, timeout_s) for number in partitions}
        begins = {number: max(low, high - _NEWEST) for number, (low, high) in ranges.items() if low < high}
        consumer.assign([TopicPartition(topic, number, begin) for number, begin in begins.items()])
        left = sum(ranges[number][1] - begin for number, begin in begins.items())
        counts: list[int] = []
        # Offsets of deleted records or transaction markers never come.
        while left > len(counts) and (messages := consumer.consume(left - len(counts), _WAIT_S)):
            counts += [count_events(each.value() or b"") for each in messages if each.error() is None]
    except KafkaException as error:
        msg = f"can't read the newest records of topic {topic!r} ({error.args[0].str()}): check READ on topic and group"
        raise BrokerUnreachableError(msg) from error
    finally:
        consumer.close()
    return sum(counts) / len(counts) if counts else 1.0

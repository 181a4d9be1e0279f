"""Where a topic begins in time."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from broker.errors import BrokerUnreachableError

_TIMEOUT_S = 15.0


def first_record_ms(config: Mapping[str, str], topic: str, timeout_s: float = _TIMEOUT_S) -> int | None:
    """Return the time of the oldest record that a topic holds, in milliseconds, or None if it is empty.

    Args:
        config: confluent-kafka settings.
        topic: Its name; it must exist.
        timeout_s: Seconds until an answer is given up.

    Raises:
        BrokerUnreachableError: If the records can't be read.
    """
    consumer = Consumer(dict(config) | {"group.id": "pid-quota-first-record", "enable.auto.commit": "false"})
    try:
        partitions = consumer.list_topics(topic, timeout_s).topics[topic].partitions
        bounds = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout_s) for number in partitions
        }
        first = {number: low for number, (low, high) in bounds.items() if low < high}
        consumer.assign([TopicPartition(topic, number, low) for number, low in first.items()])
        oldest: dict[int, int] = {}
        while len(oldest) < len(first):
            message = consumer.poll(timeout_s)
            if message is None:
                break
            if message.error():
                raise KafkaException(message.error())
            oldest.setdefault(int(message.partition() or 0), message.timestamp()[1])
        return min(oldest.values(), default=None)
    except KafkaException as error:
        msg = f"first records of topic {topic!r} can't be read ({error.args[0].str()}): check READ on topic and group"
        raise BrokerUnreachableError(msg) from error
    finally:
        consumer.close()

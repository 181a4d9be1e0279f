"""How many events the newest records of a topic of produce events hold."""

from collections.abc import Mapping

from confluent_kafka import TopicPartition

from broker.kafka.offsets import reading
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
    with reading(config, topic, "newest", timeout_s) as (consumer, ranges):
        begins = {number: max(low, high - _NEWEST) for number, (low, high) in ranges.items() if low < high}
        consumer.assign([TopicPartition(topic, number, begin) for number, begin in begins.items()])
        left = sum(ranges[number][1] - begin for number, begin in begins.items())
        counts: list[int] = []
        # Offsets of deleted records or transaction markers never come.
        while left > len(counts) and (messages := consumer.consume(left - len(counts), _WAIT_S)):
            counts += [count_events(each.value() or b"") for each in messages if each.error() is None]
    return sum(counts) / len(counts) if counts else 1.0

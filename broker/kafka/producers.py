"""Asks brokers for the producers that they remember (DescribeProducers, KIP-664)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import TopicAuthorizationFailedError, for_code
from kafka.protocol.admin import DescribeProducersRequest

from broker.errors import BrokerError
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig

PARTITIONS_PER_REQUEST = 20
REQUESTS_PER_SECOND = 5.0

_TIMEOUT_MS = 60_000
# The protocol's maximum. The answer for a partition is not paged, and has about 40 bytes per entry.
_MAX_ANSWER_BYTES = 2**31 - 1

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class PartitionProducers:
    """Entries of a partition's producer state, or a `problem`."""

    topic: str
    partition: int
    producers: Sequence[Any] = ()
    problem: str = ""


@dataclass(frozen=True)
class ProducersAnswer:
    """A broker's answer to one request. `is_sent` is false if the broker was skipped after a failure."""

    broker_id: int
    partitions: Sequence[PartitionProducers]
    is_sent: bool = True


class ProducersAdmin(KafkaAdmin):
    """A client for requests about producers, which need READ on the topics."""

    def __init__(self, kafka: KafkaConfig) -> None:
        super().__init__(kafka, timeout_ms=_TIMEOUT_MS, receive_message_max_bytes=_MAX_ANSWER_BYTES)
        self.connect()

    def topics(self) -> list[dict[str, Any]]:
        """Return all topics that this user may see, as kafka-python describes them."""
        found: list[dict[str, Any]] = self.call(lambda client: client.describe_topics())
        return found

    def transactional_ids(self) -> dict[int, str]:
        """Return transactional ids by their current producer id."""
        listed = self.call(lambda client: client.list_transactions())
        return {each.producer_id: each.transactional_id for on_broker in listed.values() for each in on_broker}

    def producers(self, broker_id: int, partitions: Sequence[TopicPartition]) -> Any:
        """Return a broker's response for partitions, including errors."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            by_topic[topic].append(number)
        topics = [
            DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic.items()
        ]
        return self.ask(DescribeProducersRequest(topics=topics), broker_id)


def ask_producers(
    admin: ProducersAdmin,
    wanted: Mapping[int, Sequence[TopicPartition]],
    wait: Callable[[float], object],
    requests_per_second: float = REQUESTS_PER_SECOND,
) -> Iterator[ProducersAnswer]:
    """Ask brokers, at a limited rate, for the producers of partitions. Skip a broker after a failure."""
    is_first = True
    for broker_id, partitions in sorted(wanted.items()):
        failure: BrokerError | None = None
        ordered = sorted(partitions)
        for begin in range(0, len(ordered), PARTITIONS_PER_REQUEST):
            portion = ordered[begin : begin + PARTITIONS_PER_REQUEST]
            is_sent = failure is None
            if is_sent:
                if not is_first:
                    wait(1 / requests_per_second)
                is_first = False
                try:
                    answer = admin.producers(broker_id, portion)
                except BrokerError as error:
                    failure = error
            if failure is None:
                yield ProducersAnswer(broker_id, _partitions(answer))
            else:
                missing = [PartitionProducers(*each, problem=str(failure)) for each in portion]
                yield ProducersAnswer(broker_id, missing, is_sent)


def _partitions(answer: Any) -> list[PartitionProducers]:
    return [
        PartitionProducers(topic.name, about.partition_index, problem=_problem(about.error_code))
        if about.error_code
        else PartitionProducers(topic.name, about.partition_index, about.active_producers)
        for topic in answer.topics
        for about in topic.partitions
    ]


def _problem(code: int) -> str:
    error = for_code(code)
    return error.__name__ + (": READ on it is needed" if error is TopicAuthorizationFailedError else "")

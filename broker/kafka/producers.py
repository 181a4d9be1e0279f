"""Asks brokers for the producers that they remember (DescribeProducers, KIP-664)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeProducersRequest

from broker.errors import BrokerError, ClusterRequestError
from broker.kafka.client import KafkaAdmin, with_retries
from wire.topics import OWN_TOPICS

PARTITIONS_PER_REQUEST = 20
REQUESTS_PER_SECOND = 5.0
NO_LEADER = -1

_TIMEOUT_MS = 60_000
# Kafka's error codes.
_NO_SUCH_PARTITION, _NOT_LEADER, _NO_TOPIC_RIGHT = 3, 6, 29
_ROUNDS = 3
_ELECTION_S = 2.0
# The protocol's maximum. The answer for a partition is not paged, and has about 40 bytes per entry.
_MAX_ANSWER_BYTES = 2**31 - 1

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class PartitionProducers:
    """Entries of a partition's producer state, or an error (`problem`, `code`)."""

    topic: str
    partition: int
    producers: Sequence[Any] = ()
    problem: str = ""
    code: int = 0


@dataclass(frozen=True)
class ProducersAnswer:
    """A broker's answer to one request. `is_sent` is false if the broker was skipped after a failure."""

    broker_id: int
    partitions: Sequence[PartitionProducers]
    is_sent: bool = True
    failure: BrokerError | None = None


class ProducersAdmin(KafkaAdmin):
    """A client for requests about producers, which need READ on the topics."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__({**settings, "receive_message_max_bytes": _MAX_ANSWER_BYTES}, timeout_ms=_TIMEOUT_MS)
        self.connect()

    def topics(self) -> list[dict[str, Any]]:
        """Return all topics that this user may see, as kafka-python describes them."""
        found: list[dict[str, Any]] = self.call(lambda client: client.describe_topics())
        return found

    def partitions_by_leader(self) -> dict[int, list[TopicPartition]]:
        """Return all partitions by their leader, or by `NO_LEADER`."""
        led: dict[int, list[TopicPartition]] = {}
        for topic in self.topics():
            for about in topic["partitions"]:
                led.setdefault(max(about["leader_id"], NO_LEADER), []).append((topic["name"], about["partition_index"]))
        return led

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

    def hidden_topic(self) -> str | None:
        """Return a topic that this user may not describe, or None."""
        # With DESCRIBE on the cluster, a user sees all topics on brokers' disks, even without rights on the topics.
        found: set[str] = set()
        for broker_id in with_retries(self.brokers):
            # kafka-python's own call lists only topics that the user may see.
            folders = self.ask(DescribeLogDirsRequest(topics=None), broker_id).results
            if all(folder.error_code for folder in folders):
                msg = "this user may not list all topics: grant DESCRIBE on the cluster"
                raise ClusterRequestError(msg)
            found.update(topic.name for folder in folders for topic in folder.topics)
        unseen = sorted(found.difference(topic["name"] for topic in self.topics()))
        about = self.call(lambda client: client.describe_topics(unseen)) if unseen else ()
        return next((topic["name"] for topic in about if topic["error_code"] == _NO_TOPIC_RIGHT), None)


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
                yield ProducersAnswer(broker_id, missing, is_sent, failure)


def held_ids(admin: ProducersAdmin, wait: Callable[[float], object]) -> Iterator[list[int]]:
    """Yield the producer ids that leaders remember, one list per partition.

    Raises BrokerError if a partition has no leader, a leader does not answer, or this user may not read or see a topic.
    """
    hidden = admin.hidden_topic()
    if hidden is not None:
        msg = f"this user may not see topic {hidden}: grant READ on it, or on all topics"
        raise ClusterRequestError(msg)
    left: set[TopicPartition] | None = None
    for _ in range(_ROUNDS):
        wanted = {
            leader: [each for each in partitions if each[0] not in OWN_TOPICS and (left is None or each in left)]
            for leader, partitions in admin.partitions_by_leader().items()
        }
        moved = set(wanted.pop(NO_LEADER, ()))
        for answer in ask_producers(admin, wanted, wait):
            if answer.failure is not None:
                raise answer.failure
            moved.update((each.topic, each.partition) for each in answer.partitions if each.code == _NOT_LEADER)
            yield from _ids(answer)
        if not moved:
            return
        left = moved
        wait(_ELECTION_S)
    topic, number = min(moved)
    msg = f"partition {topic}-{number} has no leader that answers: bring a broker of its replicas up"
    raise ClusterRequestError(msg)


def _ids(answer: ProducersAnswer) -> Iterator[list[int]]:
    for each in answer.partitions:
        # A topic that was deleted during the requests has no producers.
        if each.code not in (0, _NO_SUCH_PARTITION, _NOT_LEADER):
            msg = (
                f"broker {answer.broker_id} does not name the producers of topic {each.topic} ({each.problem}): "
                "grant READ on it"
            )
            raise ClusterRequestError(msg)
        if not each.code:
            yield [producer.producer_id for producer in each.producers]


def _partitions(answer: Any) -> list[PartitionProducers]:
    return [
        PartitionProducers(topic.name, about.partition_index, problem=for_code(code).__name__, code=code)
        if (code := about.error_code)
        else PartitionProducers(topic.name, about.partition_index, about.active_producers)
        for topic in answer.topics
        for about in topic.partitions
    ]

"""Asks brokers for the producers that they remember (DescribeProducers, KIP-664)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeProducersRequest

from broker.errors import ClusterRequestError
from broker.kafka.cluster_admin import ClusterAdmin
from wire.topics import OWN_TOPICS

PARTITIONS_PER_REQUEST = 20
REQUESTS_PER_SECOND = 5.0

_TIMEOUT_MS = 60_000
# Kafka's error codes.
_NONE, _NO_SUCH_PARTITION, _NOT_LEADER, _NO_TOPIC_RIGHT = 0, 3, 6, 29
_ROUNDS = 3
_ELECTION_S = 2.0
# The protocol's maximum: the answer for a partition is not paged, at about 40 bytes an entry.
_MAX_ANSWER_BYTES = 2**31 - 1


class ProducersAdmin(ClusterAdmin):
    """Requests about producers; needs READ on the topics."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        """Connect; raises as `ClusterAdmin`.

        Args:
            settings: of kafka-python, see `KafkaConfig.kafka_python`.
        """
        super().__init__({**settings, "receive_message_max_bytes": _MAX_ANSWER_BYTES}, _TIMEOUT_MS)

    def producers(self, broker_id: int, partitions: Sequence[tuple[str, int]]) -> Any:
        """The broker's response for its replicas of partitions, including errors.

        Raises:
            BrokerUnreachableError: the broker does not answer.
            ClusterRequestError: it refuses.
        """
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            by_topic[topic].append(number)
        topics = [
            DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic.items()
        ]
        return self._ask("ask", DescribeProducersRequest(topics=topics), broker_id)

    def hidden_topic(self) -> str | None:
        """A topic that this user may not describe, if any: brokers silently omit it from their other answers.

        Raises:
            BrokerUnreachableError: a broker does not answer.
            ClusterRequestError: DESCRIBE on the cluster is missing.
        """
        # What brokers have on their disks is shown to who may describe the cluster, whatever is granted on topics.
        found: set[str] = set()
        for broker_id in self.live_brokers():
            # kafka-python's own call asks for the topics that the user may see.
            folders = self._ask("ask", DescribeLogDirsRequest(topics=None), broker_id).results
            if all(folder.error_code for folder in folders):
                msg = "this user may not see which topics there are: grant DESCRIBE on the cluster"
                raise ClusterRequestError(msg)
            found.update(topic.name for folder in folders for topic in folder.topics)
        unseen = sorted(found.difference(topic["name"] for topic in self._ask("describe_topics")))
        about = self._ask("describe_topics", unseen) if unseen else ()
        return next((topic["name"] for topic in about if topic["error_code"] == _NO_TOPIC_RIGHT), None)


def held_ids(admin: ProducersAdmin, wait: Callable[[float], None]) -> Iterator[list[int]]:
    """Ask each leader, rate limited, for the producer ids of its partitions; all or an error.

    Args:
        admin: sends the requests.
        wait: sleeps for some seconds; what it raises ends the questions.

    Yields:
        The ids of a partition.

    Raises:
        BrokerUnreachableError: a broker does not answer.
        ClusterRequestError: a partition has no leader, or this user may not read or see a topic.
    """
    hidden = admin.hidden_topic()
    if hidden is not None:
        msg = f"this user may not see topic {hidden}: grant READ on it, or on all topics"
        raise ClusterRequestError(msg)
    left: set[tuple[str, int]] | None = None
    for _ in range(_ROUNDS):
        moved: set[tuple[str, int]] = set()
        for leader, partitions in sorted(admin.partitions_by_leader(with_leaderless=True).items()):
            wanted = sorted(each for each in partitions if each[0] not in OWN_TOPICS and (left is None or each in left))
            if leader < 0:
                moved.update(wanted)
                continue
            for begin in range(0, len(wanted), PARTITIONS_PER_REQUEST):
                for topic in admin.producers(leader, wanted[begin : begin + PARTITIONS_PER_REQUEST]).topics:
                    yield from _ids(leader, topic, moved)
                wait(1 / REQUESTS_PER_SECOND)
        if not moved:
            return
        left = moved
        wait(_ELECTION_S)
    topic, number = min(moved)
    msg = f"partition {topic}-{number} has no leader that answers: bring a broker of its replicas up"
    raise ClusterRequestError(msg)


def _ids(leader: int, topic: Any, moved: set[tuple[str, int]]) -> Iterator[list[int]]:
    for about in topic.partitions:
        if about.error_code == _NOT_LEADER:
            moved.add((topic.name, about.partition_index))
        elif about.error_code == _NONE:
            yield [producer.producer_id for producer in about.active_producers]
        elif about.error_code != _NO_SUCH_PARTITION:
            # Deleted meanwhile is no error: what it held went with it.
            reason = for_code(about.error_code).__name__
            msg = f"broker {leader} does not name the producers of topic {topic.name} ({reason}): grant READ on it"
            raise ClusterRequestError(msg)

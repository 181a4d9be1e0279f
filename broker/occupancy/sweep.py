"""Asks every broker what it holds of producers, replica by replica: a census, taken gently.

A replica is asked by the id of its broker, so followers tell, too: they hold the producers of what they replicate. It
needs READ on the topics and DESCRIBE_CONFIGS on the cluster. A partition is told as a whole, whatever its size.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import for_code
from kafka.protocol.admin import DescribeProducersRequest

from broker.cluster.cluster_admin import ClusterAdmin
from broker.errors import BrokerUnreachableError, ClusterRequestError
from lifecycle.expiry import CHECK_INTERVAL_MS
from lifecycle.occupancy import Placement, ReplicaProducers

PARTITIONS_PER_REQUEST = 20
REQUESTS_PER_SECOND = 5.0

_TIMEOUT_MS = 60_000
_ATTEMPTS = 6
_RETRY_S = 1.0
# The most that Kafka's protocol can say: a partition is told as a whole, at about 40 bytes an entry.
_MAX_ANSWER_BYTES = 2**31 - 1
_EXPIRATION = "producer.id.expiration.ms"
_TRANSACTIONAL_EXPIRATION = "transactional.id.expiration.ms"
# Of Kafka's internal settings a broker tells those that its file sets.
_CHECK_INTERVAL = "producer.id.expiration.check.interval.ms"
_OF_ONE_BROKER = "DYNAMIC_BROKER_CONFIG"


@dataclass(frozen=True)
class BrokerExpiration:
    """How long a broker remembers, as it is set now.

    Attributes:
        broker_id: Of the broker.
        producer_id_ms: `producer.id.expiration.ms`.
        transactional_id_ms: `transactional.id.expiration.ms`, another thing (KIP-854): of transaction coordinators.
        is_own: The first is set for this broker alone, so a cluster-wide change does not reach it.
        check_interval_ms: How often it looks for expired producers.
    """

    broker_id: int
    producer_id_ms: int
    transactional_id_ms: int
    is_own: bool
    check_interval_ms: int = CHECK_INTERVAL_MS


@dataclass(frozen=True)
class Unanswered:
    """A replica that is missing from a sweep.

    Attributes:
        broker_id: Of the broker that did not tell.
        topic: Of the partition.
        partition: Its number.
        reason: What it said instead.
    """

    broker_id: int
    topic: str
    partition: int
    reason: str


@dataclass
class Sweep:
    """What a sweep found.

    Attributes:
        replicas: That were told about.
        unanswered: Those that were not.
        requests: Sent.
    """

    replicas: list[ReplicaProducers] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    requests: int = 0


class OccupancyAdmin(ClusterAdmin):
    """The questions of a sweep."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        """Connect; raises as `ClusterAdmin`.

        Args:
            settings: of kafka-python, see `KafkaConfig.kafka_python`.
        """
        super().__init__({**settings, "receive_message_max_bytes": _MAX_ANSWER_BYTES}, _TIMEOUT_MS)

    def living_brokers(self) -> list[int]:
        """Ids of the brokers that are up, sorted.

        Raises:
            BrokerUnreachableError: no broker answers.
        """
        brokers = with_retries(lambda: self._ask("describe_cluster"))["brokers"]
        return sorted(int(broker["broker_id"]) for broker in brokers if not broker.get("is_fenced"))

    def placements(self) -> list[Placement]:
        """Leader and replicas of all partitions that this user may see.

        Raises:
            BrokerUnreachableError: no broker answers.
        """
        return [
            Placement(
                topic["name"],
                about["partition_index"],
                about["leader_id"] if about["leader_id"] >= 0 else None,
                tuple(about["replica_nodes"]),
                frozenset(about["isr_nodes"]),
            )
            for topic in with_retries(lambda: self._ask("describe_topics"))
            for about in topic["partitions"]
        ]

    def expiration(self, broker_id: int) -> BrokerExpiration:
        """How long a broker remembers.

        Raises:
            BrokerUnreachableError: the broker does not answer.
            ClusterRequestError: it does not tell its settings.
        """
        names = dict.fromkeys((_EXPIRATION, _TRANSACTIONAL_EXPIRATION, _CHECK_INTERVAL))
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id), names)
        found = self._ask("describe_configs", [resource], config_filter="all")["broker"][str(broker_id)]
        if _TRANSACTIONAL_EXPIRATION not in found:
            msg = f"broker {broker_id} does not tell {_EXPIRATION}: the right to DESCRIBE_CONFIGS the cluster is needed"
            raise ClusterRequestError(msg)
        transactional_ms = int(found[_TRANSACTIONAL_EXPIRATION]["value"])
        # Before Kafka 3.4, where KIP-854 is not, the other setting is for both.
        own = found.get(_EXPIRATION, {"value": transactional_ms, "config_source": ""})
        return BrokerExpiration(
            broker_id,
            int(own["value"]),
            transactional_ms,
            own.get("config_source") == _OF_ONE_BROKER,
            int(found.get(_CHECK_INTERVAL, {"value": CHECK_INTERVAL_MS})["value"]),
        )

    def producers(self, broker_id: int, partitions: Sequence[tuple[str, int]]) -> Any:
        """The broker's answer on its replicas of partitions, errors among them.

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


def sweep(
    admin: OccupancyAdmin,
    placements: Sequence[Placement],
    brokers: Sequence[int],
    *,
    partitions_per_request: int = PARTITIONS_PER_REQUEST,
    requests_per_second: float = REQUESTS_PER_SECOND,
    progress: Callable[[int], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
) -> Sweep:
    """Ask all brokers about all their replicas, one request at a time.

    Args:
        admin: Asks.
        placements: Of the partitions to ask about.
        brokers: Those that are up; replicas on others are passed over.
        partitions_per_request: A broker answers for so many at once.
        requests_per_second: At most so many, all brokers together.
        progress: Told how many replicas each request was about.
        wait: Lets seconds pass; tests replace it.
    """
    found = Sweep()
    for broker_id in brokers:
        mine = sorted(
            (each for each in placements if broker_id in each.replicas), key=lambda each: (each.topic, each.partition)
        )
        unreachable = ""
        for begin in range(0, len(mine), partitions_per_request):
            portion = mine[begin : begin + partitions_per_request]
            if not unreachable:
                if found.requests:
                    wait(1 / requests_per_second)
                unreachable = _ask(admin, broker_id, portion, found)
            if unreachable:
                # One that is gone is not waited for again and again.
                missing = (Unanswered(broker_id, each.topic, each.partition, unreachable) for each in portion)
                found.unanswered.extend(missing)
            progress(len(portion))
    return found


def with_retries(ask: Callable[[], Any], wait: Callable[[float], None] = time.sleep) -> Any:
    """Ask again for a while: the client may choose a broker that has just died, and hear of it only then.

    Raises:
        BrokerUnreachableError: no broker answers.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ask()
        except BrokerUnreachableError:
            wait(_RETRY_S)
    return ask()


def replicas_to_ask(placements: Sequence[Placement], brokers: Sequence[int]) -> int:
    """How many replicas a sweep asks about."""
    living = set(brokers)
    return sum(len(living.intersection(each.replicas)) for each in placements)


def _ask(admin: OccupancyAdmin, broker_id: int, portion: Sequence[Placement], found: Sweep) -> str:
    """Ask about a portion and add what is told; returns why it was not, if it was not."""
    found.requests += 1
    leads = {(each.topic, each.partition): each.leader == broker_id for each in portion}
    try:
        answer = admin.producers(broker_id, list(leads))
    except (BrokerUnreachableError, ClusterRequestError) as error:
        return str(error)
    for topic, about in _partitions(answer):
        number = about.partition_index
        if about.error_code:
            reason = for_code(about.error_code).__name__
            found.unanswered.append(Unanswered(broker_id, topic, number, reason))
        else:
            is_leader = leads[topic, number]
            found.replicas.append(_replica(broker_id, topic, number, is_leader, about.active_producers))
    return ""


def _partitions(answer: Any) -> Iterator[tuple[str, Any]]:
    for topic in answer.topics:
        for about in topic.partitions:
            yield topic.name, about


def _replica(broker_id: int, topic: str, partition: int, is_leader: bool, producers: Sequence[Any]) -> ReplicaProducers:
    count = len(producers)
    return ReplicaProducers(
        broker_id,
        topic,
        partition,
        is_leader,
        np.fromiter((producer.producer_id for producer in producers), np.int64, count),
        np.fromiter((producer.last_timestamp for producer in producers), np.int64, count),
        np.fromiter((producer.current_txn_start_offset >= 0 for producer in producers), np.bool_, count),
    )

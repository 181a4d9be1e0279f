"""Takes a census: asks every broker, rate limited, for the producers of each replica it holds.

Each request names its broker, so followers answer too: they hold the producers of what they replicate. Needs READ on
the topics and DESCRIBE_CONFIGS on the cluster. The answer for a partition is not paged, whatever its size.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import for_code

from broker.errors import BrokerUnreachableError, ClusterRequestError
from broker.kafka.cluster_admin import with_retries
from broker.kafka.producers_admin import PARTITIONS_PER_REQUEST, REQUESTS_PER_SECOND, ProducersAdmin
from lifecycle.expiry import CHECK_INTERVAL_MS
from lifecycle.occupancy import Placement, ReplicaProducers

_EXPIRATION = "producer.id.expiration.ms"
_TRANSACTIONAL_EXPIRATION = "transactional.id.expiration.ms"
# An internal setting: brokers report it only if their file sets it.
_CHECK_INTERVAL = "producer.id.expiration.check.interval.ms"
_OF_ONE_BROKER = "DYNAMIC_BROKER_CONFIG"


@dataclass(frozen=True)
class BrokerExpiration:
    """Expiration settings of a broker.

    Attributes:
        broker_id: Of the broker.
        producer_id_ms: `producer.id.expiration.ms`.
        transactional_id_ms: `transactional.id.expiration.ms`, which is about coordinators, not producers (KIP-854).
        is_own: `producer.id.expiration.ms` is set on this broker, which overrides a cluster-wide value.
        check_interval_ms: Interval of its expiration checks.
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
        broker_id: Broker that did not answer.
        topic: Of the partition.
        partition: Its number.
        reason: Why.
    """

    broker_id: int
    topic: str
    partition: int
    reason: str


@dataclass
class Sweep:
    """Result of a sweep.

    Attributes:
        replicas: Those answered.
        unanswered: Those not answered.
        requests: Number of requests sent.
    """

    replicas: list[ReplicaProducers] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    requests: int = 0


class OccupancyAdmin(ProducersAdmin):
    """Requests of a sweep."""

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
        """Expiration settings of a broker.

        Raises:
            BrokerUnreachableError: the broker does not answer.
            ClusterRequestError: DESCRIBE_CONFIGS is missing.
        """
        names = dict.fromkeys((_EXPIRATION, _TRANSACTIONAL_EXPIRATION, _CHECK_INTERVAL))
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id), names)
        found = self._ask("describe_configs", [resource], config_filter="all")["broker"][str(broker_id)]
        if _TRANSACTIONAL_EXPIRATION not in found:
            msg = f"broker {broker_id} does not show {_TRANSACTIONAL_EXPIRATION}: grant DESCRIBE_CONFIGS on the cluster"
            raise ClusterRequestError(msg)
        transactional_ms = int(found[_TRANSACTIONAL_EXPIRATION]["value"])
        # Before Kafka 3.4 (KIP-854) the other setting applies to both.
        own = found.get(_EXPIRATION, {"value": transactional_ms, "config_source": ""})
        return BrokerExpiration(
            broker_id,
            int(own["value"]),
            transactional_ms,
            own.get("config_source") == _OF_ONE_BROKER,
            int(found.get(_CHECK_INTERVAL, {"value": CHECK_INTERVAL_MS})["value"]),
        )


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
    """Ask all brokers for all their replicas, one request at a time.

    Args:
        admin: Sends the requests.
        placements: Partitions to ask for.
        brokers: Those that are up; replicas on others are skipped.
        partitions_per_request: Size of a request.
        requests_per_second: Rate limit over all brokers.
        progress: Called with the number of replicas after each request.
        wait: Sleeps for some seconds.
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
                # Do not wait for an unreachable broker again.
                missing = (Unanswered(broker_id, each.topic, each.partition, unreachable) for each in portion)
                found.unanswered.extend(missing)
            progress(len(portion))
    return found


def replicas_to_ask(placements: Sequence[Placement], brokers: Sequence[int]) -> int:
    """Number of replicas that a sweep asks for."""
    living = set(brokers)
    return sum(len(living.intersection(each.replicas)) for each in placements)


def _ask(admin: OccupancyAdmin, broker_id: int, portion: Sequence[Placement], found: Sweep) -> str:
    """Send one request and add its answers; return the error if it failed as a whole, else an empty string."""
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

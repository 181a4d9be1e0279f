"""Asks every broker for the producers of its replicas.

The user needs READ on the topics and DESCRIBE_CONFIGS on the cluster.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from broker.kafka.client import with_retries
from broker.kafka.config import KafkaConfig
from broker.kafka.producers import REQUESTS_PER_SECOND, ProducersAdmin, ask_producers
from lifecycle.occupancy import CHECK_INTERVAL_MS, Placement, ReplicaProducers

_EXPIRATION = "producer.id.expiration.ms"
_TRANSACTIONAL_EXPIRATION = "transactional.id.expiration.ms"
# Brokers report this internal setting only if their file sets it.
_CHECK_INTERVAL = "producer.id.expiration.check.interval.ms"
_OF_ONE_BROKER = "DYNAMIC_BROKER_CONFIG"


@dataclass(frozen=True)
class BrokerExpiration:
    """A broker's expiration settings. `is_own` tells whether it has its own `producer.id.expiration.ms`."""

    broker_id: int
    producer_id_ms: int
    transactional_id_ms: int
    is_own: bool
    check_interval_ms: int = CHECK_INTERVAL_MS


@dataclass(frozen=True)
class Unanswered:
    """A replica whose producers a broker did not return."""

    broker_id: int
    topic: str
    partition: int
    reason: str


@dataclass
class Sweep:
    """Result of a sweep."""

    replicas: list[ReplicaProducers] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    requests: int = 0


def placements(admin: ProducersAdmin) -> list[Placement]:
    """Return leader and replicas of each partition that this user may see."""
    return [
        Placement(
            topic["name"],
            about["partition_index"],
            about["leader_id"] if about["leader_id"] >= 0 else None,
            tuple(about["replica_nodes"]),
            frozenset(about["isr_nodes"]),
        )
        for topic in with_retries(admin.topics)
        for about in topic["partitions"]
    ]


def expiration(admin: ProducersAdmin, broker_id: int) -> BrokerExpiration:
    """Return the expiration settings of a broker."""
    transactional_ms = int(admin.require_setting(broker_id, _TRANSACTIONAL_EXPIRATION)["value"])
    found = admin.broker_settings(broker_id)
    # Before Kafka 3.4 (KIP-854), the setting for transactional ids also applies to producer ids.
    own = found.get(_EXPIRATION, {"value": transactional_ms, "config_source": ""})
    return BrokerExpiration(
        broker_id,
        int(own["value"]),
        transactional_ms,
        own.get("config_source") == _OF_ONE_BROKER,
        int(found.get(_CHECK_INTERVAL, {"value": CHECK_INTERVAL_MS})["value"]),
    )


def sweep(
    admin: ProducersAdmin,
    partitions: Sequence[Placement],
    brokers: Sequence[int],
    *,
    requests_per_second: float = REQUESTS_PER_SECOND,
    progress: Callable[[float, float], None] = lambda _done, _total: None,
    wait: Callable[[float], None] = time.sleep,
) -> Sweep:
    """Ask brokers for the producers of all their replicas, one request at a time.

    `progress` gets the number of replicas so far and the total.
    """
    found = Sweep()
    leaders = {(each.topic, each.partition): each.leader for each in partitions}
    wanted = {
        broker_id: [(each.topic, each.partition) for each in partitions if broker_id in each.replicas]
        for broker_id in brokers
    }
    done, total = 0, sum(map(len, wanted.values()))
    for answer in ask_producers(admin, wanted, wait, requests_per_second):
        found.requests += answer.is_sent
        for each in answer.partitions:
            if each.problem:
                found.unanswered.append(Unanswered(answer.broker_id, each.topic, each.partition, each.problem))
            else:
                is_leader = leaders[each.topic, each.partition] == answer.broker_id
                found.replicas.append(_replica(answer.broker_id, each.topic, each.partition, is_leader, each.producers))
        done += len(answer.partitions)
        progress(done, total)
    return found


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


def last_batches(
    kafka: KafkaConfig, report: Callable[[float, float], None] = lambda _done, _total: None
) -> tuple[dict[int, int], Sequence[Unanswered]]:
    """Return the time of each producer id's last batch (ms since the epoch), and the unanswered partitions."""
    newest: dict[int, int] = {}
    with ProducersAdmin(kafka) as admin:
        brokers = with_retries(admin.brokers)
        # Ask only leaders, because a leader has all entries of its followers.
        led = [replace(each, replicas=(each.leader,)) for each in placements(admin) if each.leader is not None]
        swept = sweep(admin, led, brokers, progress=report)
    for replica in swept.replicas:
        for pid, last in zip(replica.producer_ids.tolist(), replica.last_timestamps_ms.tolist(), strict=True):
            newest[pid] = max(last, newest.get(pid, last))
    return newest, swept.unanswered

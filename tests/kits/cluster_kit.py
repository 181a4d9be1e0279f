"""Helpers of the tests on a cluster of three brokers."""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin.topics import ElectionType
from kafka.structs import TopicPartition as KafkaPartition

from broker.kafka.client import RawAdmin
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import make_topic, wait_until
from tests.kits.occupancy_kit import fill

_TIMEOUT_S = 30.0
_LIMIT_S = 60.0


def replicated_topic(cluster: LocalCluster, name: str, partitions: int = 1, replicas: int | None = None) -> str:
    """A topic of a fresh name, with a copy on each node unless told otherwise."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    copies = replicas or len(cluster.node_ids)
    make_topic(cluster, topic, partitions, copies, min_insync_replicas=str(min(2, copies)))
    return topic


def addresses_of_the_living(cluster: LocalCluster) -> str:
    """Those without a password: kafka-python leaks a socket each time that it asks a dead one."""
    addresses = zip(cluster.node_ids, cluster.admin_servers.split(","), strict=True)
    return ",".join(address for node, address in addresses if node in cluster.running)


def leader_of(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    admin = AdminClient({**cluster.admin_config()})
    leaders: list[int] = []

    def is_known() -> bool:
        # A node may not have heard yet of a topic just made.
        about = admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions.get(partition)
        leaders.append(-1 if about is None else int(about.leader))
        return leaders[-1] >= 0

    wait_until(is_known, f"{topic}-{partition} has a leader")
    return leaders[-1]


def in_sync(cluster: LocalCluster, topic: str, partition: int = 0) -> set[int]:
    admin = AdminClient({**cluster.admin_config()})
    about = admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions.get(partition)
    return set() if about is None else set(about.isrs)


class KnownProducer:
    """A real producer that knows its own producer ids: librdkafka tells them in its statistics."""

    def __init__(self, cluster: LocalCluster, user: str, transactional_id: str | None) -> None:
        self.principal = f"User:{user}"
        self._transactional = transactional_id is not None
        self._pids: set[int] = set()
        identity = {"transactional.id": transactional_id} if transactional_id else {"enable.idempotence": True}
        settings = {"statistics.interval.ms": 2000, "stats_cb": self._note, "log_level": 0, "linger.ms": 0}
        self._producer = Producer({**cluster.client_config(user), **settings, **identity})
        if self._transactional:
            self._producer.init_transactions(_LIMIT_S)

    def begin(self) -> None:
        if self._transactional:
            self._producer.begin_transaction()

    def send(self, topic: str, partitions: list[int]) -> None:
        for partition in partitions:
            self._producer.produce(topic, b"value", partition=partition)
            self._producer.poll(0)

    def end(self) -> None:
        if self._transactional:
            self._producer.commit_transaction(_LIMIT_S)
        assert self._producer.flush(_LIMIT_S) == 0

    def produce(self, topic: str, partitions: list[int]) -> None:
        self.begin()
        self.send(topic, partitions)
        self.end()

    def pids(self) -> set[int]:
        give_up_at = time.monotonic() + _LIMIT_S
        while not self._pids:
            assert time.monotonic() < give_up_at, f"{self.principal} never learned its producer id"
            self._producer.poll(0.1)
        return set(self._pids)

    def close(self) -> None:
        # Its callback refers to us: else 200 of them would go on talking to brokers that are gone.
        del self._producer

    def _note(self, statistics: str) -> None:
        pid = json.loads(statistics).get("eos", {}).get("producer_id", -1)
        if pid >= 0:
            self._pids.add(pid)


@contextmanager
def admin_client(cluster: LocalCluster) -> Iterator[RawAdmin]:
    client = RawAdmin(bootstrap_servers=cluster.admin_servers.split(","))
    try:
        yield client
    finally:
        client.close()


def held_pids(cluster: LocalCluster, topic: str) -> set[int]:
    """Producer ids that the leaders of a topic's partitions remember."""
    with admin_client(cluster) as admin:
        numbers = [about["partition_index"] for about in admin.describe_topics([topic])[0]["partitions"]]
        found = admin.describe_producers([KafkaPartition(topic, number) for number in numbers])
    return {producer.producer_id for state in found.values() for producer in state.active_producers}


def reassign(cluster: LocalCluster, topic: str, replicas: dict[int, list[int]]) -> None:
    """Give partitions other replicas, the first of which becomes the leader; wait until that is done."""
    with admin_client(cluster) as admin:
        wanted = {KafkaPartition(topic, partition): nodes for partition, nodes in replicas.items()}
        assert set(admin.alter_partition_reassignments(wanted).values()) == {None}
        wait_until(lambda: not admin.list_partition_reassignments(list(wanted)), "partitions reassigned")

        def are_led_as_wanted() -> bool:
            # A replica that is not in sync yet is not elected: ask again.
            admin.elect_leaders(ElectionType.PREFERRED, {topic: list(replicas)}, raise_errors=False)
            return all(leader_of(cluster, topic, partition) == nodes[0] for partition, nodes in replicas.items())

        wait_until(are_led_as_wanted, f"{topic} led by the first of its replicas")


def produce_old_pids(cluster: LocalCluster, topic: str, count: int) -> None:
    """Append a batch each of so many producer ids to partition 0, as a client of that many producers would."""
    batches = [(pid, round(time.time() * 1000)) for pid in range(10_000_000, 10_000_000 + count)]
    fill(cluster.admin_servers, topic, {0: leader_of(cluster, topic)}, {0: batches})

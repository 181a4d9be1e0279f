import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from broker.kafka.topics import ensure_topics
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import file_tap, read_events, running, transactional_producer, wait_until, wait_until_idle
from tests.kits.cluster_kit import (
    KnownProducer,
    held_pids,
    in_sync,
    leader_of,
    produce_old_pids,
    reassign,
    replicated_topic,
)
from tests.kits.hostile_kit import Hostile
from wire.broker_lines import InitLine, decode_line

Answer = tuple[str, str, int, int]
"""Principal, client id, producer id and epoch."""

USERS = {f"u{number:02d}": f"secret-{number:02d}" for number in range(20)}
PARTITIONS = 6
# Per wave and user: half of them transactional.
PRODUCERS_PER_WAVE = 5


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("taps"), USERS, jars=jars) as started:
        ensure_topics(started.admin_config(), replication_factor=3)
        yield started


def wave(cluster: LocalCluster, topic: str, name: str) -> list[KnownProducer]:
    """Producers of all users; each has produced to three partitions, half of them in transactions that overlap."""
    producers = []
    for place, user in enumerate(USERS):
        group = [
            KnownProducer(cluster, user, f"{name}-{user}-{number}" if (number + place) % 2 else None)
            for number in range(PRODUCERS_PER_WAVE)
        ]
        for number, producer in enumerate(group):
            producer.begin()
            producer.send(topic, [(number + step) % PARTITIONS for step in range(3)])
        # The first to begin is the last to end.
        for producer in reversed(group):
            producer.end()
        producers += group
    return producers


def known(producers: list[KnownProducer]) -> set[tuple[str, int]]:
    return {(producer.principal, pid) for producer in producers for pid in producer.pids()}


@pytest.mark.slow
def test_every_producer_id_of_a_cluster_is_placed_with_the_user_that_produced(cluster: LocalCluster) -> None:
    topic = replicated_topic(cluster, "orders", PARTITIONS)
    events = replicated_topic(cluster, "events", 4)
    taps = [file_tap(cluster.log_file(node), node, cluster.admin_config(), topic=events) for node in cluster.node_ids]
    with ExitStack() as stack:
        for tap in taps:
            stack.enter_context(running(tap))
        producers = wave(cluster, topic, "first")
        held = producers[::9]

        reassign(cluster, topic, {n: [n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(PARTITIONS)})
        for producer in held:
            producer.produce(topic, list(range(PARTITIONS)))
        cluster.kill(2)
        for producer in held:
            producer.produce(topic, list(range(PARTITIONS)))
        cluster.start(2)
        wait_until(lambda: all(in_sync(cluster, topic, n) == {1, 2, 3} for n in range(PARTITIONS)), "in sync again")
        producers += wave(cluster, topic, "second")

        for tap in taps:
            wait_until_idle(tap, rounds=30)

    seen = {
        (event["principal"], event["producer_id"])
        for _, event in read_events(cluster, events)
        if event["topic"] == topic
    }
    expected = known(producers)
    for producer in producers:
        producer.close()
    assert len(producers) == 200
    assert seen == expected
    assert {pid for _, pid in seen} == held_pids(cluster, topic)


@pytest.mark.slow
def test_old_producer_ids_of_a_partition_that_moves_or_of_a_log_that_recovers_are_no_events(
    cluster: LocalCluster,
) -> None:
    topic = replicated_topic(cluster, "old", 1, replicas=1)
    produce_old_pids(cluster, topic, 5000)
    events = replicated_topic(cluster, "events", 4)
    taps = [
        file_tap(cluster.log_file(n), n, cluster.admin_config(), topic=events, from_end=True) for n in cluster.node_ids
    ]
    with ExitStack() as stack:
        for tap in taps:
            stack.enter_context(running(tap))
            wait_until_idle(tap)
        moved_to = leader_of(cluster, topic) % 3 + 1
        reassign(cluster, topic, {0: [moved_to]})
        cluster.kill(moved_to)
        cluster.start(moved_to)
        alive = KnownProducer(cluster, "u00", None)
        alive.produce(topic, [0])

        for tap in taps:
            wait_until_idle(tap, rounds=30)

    assert len(held_pids(cluster, topic)) == 5001
    placed = {event["producer_id"] for _, event in read_events(cluster, events) if event["topic"] == topic}
    assert placed == alive.pids()


def coordinator_of(cluster: LocalCluster, transactional_id: str) -> int:
    """The node that answers for it; has the topic of transactions made."""
    transactional_producer(cluster.client_config("u00"), transactional_id)
    for node in cluster.node_ids:
        with Hostile(cluster, "u00", node=node) as asker:
            if asker.init(transactional_id)[0] != KafkaError.NOT_COORDINATOR:
                return node
    raise AssertionError(transactional_id)


def ask(cluster: LocalCluster, user: str, transactional_id: str, node: int, times: int) -> set[Answer]:
    """Ask as often; return what was handed out."""
    with Hostile(cluster, user, f"client-of-{user}", node=node) as asker:
        answers = [asker.init(transactional_id) for _ in range(times)]
    return {(f"User:{user}", f"client-of-{user}", pid, epoch) for error, pid, epoch in answers if error == 0}


def told(cluster: LocalCluster, transactional_id: str, node: int) -> set[Answer]:
    lines = [decode_line(line) for line in cluster.log_file(node).read_bytes().splitlines()]
    inits = [line for line in lines if isinstance(line, InitLine) and line.transactional_id == transactional_id]
    return {
        (line.principal, line.client_id or "", line.result_producer_id, line.result_producer_epoch)
        for line in inits
        if line.error == "NONE" and (line.client_id or "").startswith("client-of-")
    }


@pytest.mark.slow
def test_an_answer_on_another_thread_is_told_of_who_asked_or_not_at_all(cluster: LocalCluster) -> None:
    # given a log of transactions with replicas, after whose answers the coordinator answers, and two kinds of ids
    own, contested = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("own", "contested"))
    of_own, of_contested = coordinator_of(cluster, own), coordinator_of(cluster, contested)

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(ask, cluster, user, contested, of_contested, 300) for user in ("u04", "u05")]
        owners = ask(cluster, "u03", own, of_own, 50)
    contesters = set[Answer]().union(*(each.result() for each in both))

    wait_until(lambda: told(cluster, own, of_own) == owners != set(), "each answer to the owner")
    assert told(cluster, contested, of_contested) <= contesters

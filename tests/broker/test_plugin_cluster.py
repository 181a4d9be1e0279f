import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import events_of, read_events, reports_of, transactional_producer, wait_until
from tests.kits.cluster_kit import (
    KnownProducer,
    held_pids,
    leader_of,
    produce_old_pids,
    reassign,
    replicated_topic,
)
from tests.kits.hostile_kit import Hostile
from wire.plugin_reports import AliveReport, InitReport, StopReport

Answer = tuple[str, str, int, int]
"""Principal, client id, producer id and epoch."""

USERS = {f"u{number:02d}": f"secret-{number:02d}" for number in range(20)}


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("plugins"), USERS, jars=jars) as started:
        started.wait_for_plugin()
        yield started


@pytest.mark.slow
def test_old_producer_ids_of_a_partition_that_moves_or_of_a_log_that_recovers_are_no_events(
    cluster: LocalCluster,
) -> None:
    topic = replicated_topic(cluster, "old", 1, replicas=1)
    produce_old_pids(cluster, topic, 5000)
    old_leader = leader_of(cluster, topic)
    moved_to = old_leader % 3 + 1
    reassign(cluster, topic, {0: [moved_to]})
    cluster.kill(moved_to)
    cluster.start(moved_to)
    cluster.wait_for_plugin(moved_to)
    alive = KnownProducer(cluster, "u00", None)
    alive.produce(topic, [0])
    (pid,) = alive.pids()
    events_of(cluster, pid)

    assert len(held_pids(cluster, topic)) == 5001
    placed = [each for each in read_events(cluster) if each.topic == topic and each.broker_id == moved_to]
    assert {event.producer_id for event in placed} == {pid}
    alive.close()


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
    reports = [each for each in reports_of(cluster, InitReport) if each.transactional_id == transactional_id]
    return {
        (each.principal, each.client_id or "", each.result_producer_id, each.result_producer_epoch)
        for each in reports
        if each.error == "NONE" and each.broker_id == node and (each.client_id or "").startswith("client-of-")
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


@pytest.mark.slow
def test_a_broker_that_shuts_down_says_so_and_each_plugin_sees_all_brokers(cluster: LocalCluster) -> None:
    def runs_of(kind: type[AliveReport | StopReport], broker_id: int) -> list[str]:
        return [each.run for each in reports_of(cluster, kind) if each.broker_id == broker_id]

    wait_until(lambda: all(runs_of(AliveReport, node) for node in cluster.node_ids), "each has reported twice")
    run = runs_of(AliveReport, 3)[-1]

    cluster.stop(3)
    wait_until(lambda: run in runs_of(StopReport, 3), "its last report")
    cluster.start(3)

    (stop,) = (each for each in reports_of(cluster, StopReport) if each.run == run)
    assert stop.shutdown
    assert stop.problem is None
    assert {*stop.cluster_brokers} == {*cluster.node_ids}
    assert {each.cluster_id for each in reports_of(cluster, AliveReport)} == {stop.cluster_id}

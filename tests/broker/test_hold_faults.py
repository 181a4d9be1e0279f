"""Holds when brokers restart, die or lack the authorizer, when leaders move, and when clocks are wrong."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.local.local_broker import LocalBroker
from tests.broker.local_cluster import LocalCluster
from tests.kits.admin_kit import alter
from tests.kits.broker_kit import restart, transactional_producer, wait_for_report, wait_until
from tests.kits.cluster_kit import leader_of, reassign
from tests.kits.hold_kit import LOADING, MALLORY, Asker, HoldWriter, held, in_force, now_ms
from tests.kits.hostile_kit import Hostile
from wire.plugin_reports import HoldReport
from wire.topics import HOLDS

pytestmark = pytest.mark.slow
NOT_COORDINATOR = 16
TRANSACTIONS = "__transaction_state"
HOUR_MS = 3_600_000
CLOCKS_DIFFER_MS = 1000


@pytest.fixture(scope="module")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of its own, because tests restart it."""
    with LocalBroker(tmp_path_factory.mktemp("held"), jars=jars, holds=True) as running:
        running.wait_for_plugin()
        yield running


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with the authorizer."""
    with LocalCluster(tmp_path_factory.mktemp("holding"), jars=jars, holders=(1, 2, 3)) as running:
        running.wait_for_plugin()
        with Asker(running) as mallory:
            wait_until(lambda: {mallory.error(node) for node in running.node_ids} == {0}, "all brokers have PIDs")
        yield running


@pytest.mark.parametrize("by_kill", [True, False], ids=["killed", "stopped"])
def test_a_broker_that_restarts_keeps_its_holds_and_the_ids_that_it_knows(broker: LocalBroker, by_kill: bool) -> None:
    known = transactional_producer(broker.client_config("mallory"), "known")
    with HoldWriter(broker) as holds:
        before = in_force(holds.wait_for(holds.hold(600)))[MALLORY]
        if by_kill:
            broker.kill()
        restart(broker)
        started = now_ms() - 60_000
        after = wait_for_report(
            broker, HoldReport, lambda each: bool(in_force(each)) and each.timestamp_ms > max(started, before.since_ms)
        )
        with Asker(broker) as mallory, Asker(broker, "alice") as alice, Hostile(broker, "mallory") as client:
            # A broker that has just begun has no PIDs for anybody.
            wait_until(lambda: alice.error() == 0, "alice gets one")
            assert mallory.error() == LOADING
            assert client.init("new")[0] == LOADING
            transactional_producer(broker.client_config("mallory"), "known")
            # the remaining time, not the whole
            assert abs(in_force(after)[MALLORY].ends_ms - before.ends_ms) < CLOCKS_DIFFER_MS
            holds.remove()
            wait_until(lambda: mallory.error() == 0, "the hold is gone")
    del known


@pytest.mark.parametrize(("step_ms", "is_held"), [(HOUR_MS, True), (-HOUR_MS, False)], ids=["ahead", "behind"])
def test_no_clock_lengthens_a_hold(broker: LocalBroker, step_ms: int, is_held: bool) -> None:
    """A broker that restarts finds a record with the time of a clock that was wrong by an hour."""
    alter(broker, {"message.timestamp.type": "CreateTime"}, HOLDS)
    with HoldWriter(broker) as holds:
        producer = Producer({**broker.admin_config(), "log_level": 0})
        producer.produce(HOLDS, holds.value(300), MALLORY.encode(), timestamp=now_ms() + step_ms)
        assert producer.flush(30) == 0
        with Asker(broker) as mallory:
            # A new record counts from when the broker read it, whatever its time.
            wait_until(lambda: mallory.error() == LOADING, "she is held")
        restarted = now_ms()
        restart(broker)
        report = wait_for_report(broker, HoldReport, lambda each: each.timestamp_ms > restarted and each.offset >= 0)
        assert (MALLORY in in_force(report)) == is_held
        if is_held:
            assert in_force(report)[MALLORY].ends_ms <= now_ms() + 300_000
        holds.remove()
        with Asker(broker) as mallory:
            wait_until(lambda: mallory.error() == 0, "the hold is gone")
    alter(broker, {"message.timestamp.type": "LogAppendTime"}, HOLDS)


def answers(cluster: LocalCluster) -> dict[int, int]:
    """The error codes of new requests for a PID of mallory, by running node."""
    found = {}
    for node in cluster.running:
        with Hostile(cluster, "mallory", node=node) as client:
            found[node] = client.init()[0]
    return found


def are_all(cluster: LocalCluster, error: int) -> bool:
    return {*answers(cluster).values()} == {error}


def test_ids_are_known_wherever_their_coordinator_moves(cluster: LocalCluster) -> None:
    known = transactional_producer(cluster.client_config("mallory"), "known")
    with held(cluster):
        leaders = {number: leader_of(cluster, TRANSACTIONS, number) for number in range(4)}
        others = {1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 2, 3]}
        reassign(cluster, TRANSACTIONS, {number: others[leader] for number, leader in leaders.items()})
        for _ in range(3):
            transactional_producer(cluster.client_config("mallory"), "known")
        # Of an unknown id, the others than its coordinator say that they are not the coordinator.
        errors = []
        for node in cluster.node_ids:
            with Hostile(cluster, "mallory", node=node) as client:
                errors.append(client.init("new")[0])
        assert sorted(errors) == [LOADING, NOT_COORDINATOR, NOT_COORDINATOR]
    del known


def holds_after(node: int, since_ms: int, report: HoldReport) -> bool:
    return report.broker_id == node and report.timestamp_ms > since_ms and bool(in_force(report))


def test_a_rolling_restart_lets_nobody_through(cluster: LocalCluster) -> None:
    with held(cluster, hold_ms=600_000) as holds:
        for node in cluster.node_ids:
            restarted = now_ms()
            cluster.stop(node)
            assert are_all(cluster, LOADING)
            cluster.start(node)
            wait_for_report(cluster, HoldReport, partial(holds_after, node, restarted))
            assert are_all(cluster, LOADING)
        holds.remove()
        wait_until(lambda: are_all(cluster, 0), "no broker holds her")


def test_holds_run_out_while_their_topic_has_no_leader_and_count_again(cluster: LocalCluster) -> None:
    reassign(cluster, HOLDS, {0: [3]})
    with held(cluster, hold_ms=25_000) as holds:
        cluster.stop(3)
        assert are_all(cluster, LOADING)
        wait_until(lambda: are_all(cluster, 0), "the hold has run out")
        problem = "pid-quota: topic pid-quota-holds has no leader, so holds run out"
        wait_until(lambda: problem in cluster.folder(1).joinpath("server.log").read_text(), "a line about the leader")
        cluster.start(3)
        holds.hold()
        wait_until(lambda: are_all(cluster, LOADING), "all hold her")
    reassign(cluster, HOLDS, {0: [1, 2, 3]})


def test_a_broker_without_the_authorizer_holds_nobody(cluster: LocalCluster) -> None:
    cluster.stop(3)
    cluster.start(3, holds=False)
    try:
        with HoldWriter(cluster) as holds:
            wait_until(lambda: are_all(cluster, 0), "all have PIDs")
            offset = holds.hold()
            for node in (1, 2):
                holds.wait_for(offset, node)
            assert answers(cluster) == {1: LOADING, 2: LOADING, 3: 0}
    finally:
        cluster.stop(3)
        cluster.start(3)

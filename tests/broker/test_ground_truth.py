"""Compares the plugins' events with the batches that five client libraries wrote to a real cluster.

Brokers are killed one after the other, leaders move, and the topic of events loses its leaders and is deleted.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from broker.kafka.java_properties import read_properties
from broker.local.server_files import HOST
from broker.local.server_process import Jvm, free_ports
from jvm.jar_sets import kafka_classpath
from jvm.java import find_java
from tests.broker.churning_clients import PARTITIONS
from tests.broker.local_cluster import LocalCluster
from tests.kits.admin_kit import allow, bind, delete_topic
from tests.kits.broker_kit import frozen, make_topic, read_events, reports_of, stored_batches, wait_until
from tests.kits.client_kit import build_go_program, command_of, find_go
from tests.kits.cluster_kit import in_sync, reassign, replicated_topic
from tests.kits.tls_kit import issue
from wire.plugin_reports import AliveReport
from wire.topics import EVENT_PARTITIONS, PRODUCE_EVENTS

USERS = {user: f"{user}-secret" for user in ("rd", "py", "java", "go", "copy", "admin")}
BY_VALUE = {b"one order": "go"}
"""What the Go client writes."""
FOLDER = Path(__file__).parent
AWAY_S = 120.0


class SecuredCluster(LocalCluster):
    """Brokers that talk to each other by TLS, with a user and a password."""

    def __init__(self, folder: Path, jars: Path) -> None:
        super().__init__(
            folder,
            USERS,
            jars=jars,
            allow_everyone_if_no_acl_found="false",
            auto_create_topics_enable="false",
        )
        self._certificates, self._keys = issue(folder / "certificates")
        self._between = dict(zip(self.node_ids, free_ports(len(self.node_ids)), strict=True))

    def _write_files(self, node_id: int) -> Jvm:
        jvm = super()._write_files(node_id)
        file = self.folder(node_id) / "server.properties"
        before = dict(read_properties(file.read_text().splitlines()))
        own, listener = f",BROKERS://{HOST}:{self._between[node_id].inner}", "listener.name.brokers"
        login = 'PlainLoginModule required username="admin" password="admin-secret" user_admin="admin-secret";'
        added = {
            "listeners": before["listeners"] + own,
            "advertised.listeners": before["advertised.listeners"] + own,
            "listener.security.protocol.map": f"{before['listener.security.protocol.map']},BROKERS:SASL_SSL",
            "inter.broker.listener.name": "BROKERS",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"{listener}.plain.sasl.jaas.config": f"org.apache.kafka.common.security.plain.{login}",
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.location": str(self._keys),
            f"{listener}.ssl.truststore.type": "PEM",
            f"{listener}.ssl.truststore.location": str(self._certificates.ca),
        }
        with file.open("a", encoding="ascii") as properties:
            properties.writelines(f"{name}={value}\n" for name, value in added.items())
        return jvm


@pytest.fixture
def cluster(jars: Path, tmp_path: Path) -> Iterator[LocalCluster]:
    (tmp_path / "cluster").mkdir()
    with SecuredCluster(tmp_path / "cluster", jars) as started:
        started.wait_for_plugin()
        yield started


def let_write(cluster: LocalCluster, topic: str) -> None:
    """Each user may write the topics that begin with this name; nobody else may do anything."""
    for user in (f"User:{name}" for name in USERS):
        bind(
            cluster,
            allow(topic, user, prefixed=True),
            allow(topic, user, operation=AclOperation.READ, prefixed=True),
            allow("*", user, ResourceType.GROUP, AclOperation.READ),
            allow("*", user, ResourceType.TRANSACTIONAL_ID),
        )


@contextmanager
def clients(cluster: LocalCluster, topic: str, folder: Path) -> Iterator[list[int]]:
    """Run the clients; yields the ids of their processes."""
    servers = cluster.bootstrap_servers
    commands = [
        [sys.executable, str(FOLDER / "churning_clients.py"), kind, servers, user, USERS[user], topic]
        for kind, user in (("librdkafka", "rd"), ("kafka-python", "py"), ("copy", "copy"))
    ]
    java = [find_java(), "-Xmx128m", "-cp", kafka_classpath(), str(FOLDER / "JavaChurn.java")]
    commands.append([*java, servers, "java", USERS["java"], topic])
    if find_go():
        program = [build_go_program(folder), "franz-go"]
        commands.append(command_of(program, cluster.client_config("go"), topic, "orders-app", "1", "crowd"))
    with (folder / "clients.out").open("wb") as out:
        running = [subprocess.Popen(command, stdout=out, stderr=out, cwd=FOLDER.parents[1]) for command in commands]
        try:
            yield [each.pid for each in running]
        finally:
            if any(each.poll() is not None for each in running):
                print("a client has ended:", (folder / "clients.out").read_text(errors="replace")[-2000:])
            for each in running:
                each.kill()
                each.wait()


def truth(cluster: LocalCluster, node: int, topics: list[str]) -> set[tuple[str, int]]:
    """Principal and PID of each batch in a node's own copy of the topics."""
    found = set()
    segments = (cluster.folder(node) / "data").glob("*/*.log")
    for batch in stored_batches(each for each in segments if each.parent.name.rpartition("-")[0] in topics):
        if not batch.is_control_batch and batch.producer_id >= 0:
            for value in [bytes(record.value or b"") for record in batch]:
                found.add((f"User:{BY_VALUE.get(value) or value.decode()}", batch.producer_id))
    return found


def seen(cluster: LocalCluster, topic: str) -> set[tuple[str, int]]:
    """Principal and PID of each event of the topics that begin with this name."""
    return {(each.principal, each.producer_id) for each in read_events(cluster) if each.topic.startswith(topic)}


def await_in_sync(cluster: LocalCluster, *topics: str) -> None:
    wait_until(
        lambda: all(in_sync(cluster, topic, n) == {1, 2, 3} for topic in topics for n in range(PARTITIONS)), "in sync"
    )


def kill_one_after_the_other(cluster: LocalCluster, topic: str) -> None:
    for node in cluster.node_ids:
        cluster.kill(node)
        time.sleep(10)
        cluster.start(node)
        await_in_sync(cluster, topic)
        reassign(cluster, topic, {n: [(n + k + node) % 3 + 1 for k in (1, 2, 0)] for n in range(PARTITIONS)})


def take_the_leaders_of_the_events(cluster: LocalCluster) -> None:
    """Nobody can write an event for two minutes; all else works."""
    reassign(cluster, PRODUCE_EVENTS, {n: [3] for n in range(EVENT_PARTITIONS)})
    cluster.stop(3)
    time.sleep(AWAY_S)
    cluster.start(3)
    reassign(cluster, PRODUCE_EVENTS, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(EVENT_PARTITIONS)})


def delete_the_events(cluster: LocalCluster, topic: str, processes: list[int]) -> set[tuple[str, int]]:
    """Delete the topic of events while the clients pause for a moment; return what the topic had."""
    with ExitStack() as stack:
        for pid in processes:
            stack.enter_context(frozen(pid))
        # Requests that brokers have already, and their events, are on their way.
        time.sleep(5)
        found = seen(cluster, topic)
        delete_topic(cluster, PRODUCE_EVENTS)
    cluster.wait_for_plugin()
    return found


@pytest.mark.slow
@pytest.mark.alone
def test_every_producer_id_of_five_client_libraries_is_its_users(cluster: LocalCluster, tmp_path: Path) -> None:
    topic = replicated_topic(cluster, "orders", PARTITIONS)
    let_write(cluster, topic)
    make_topic(cluster, f"{topic}-copy", PARTITIONS, 3, min_insync_replicas="2")
    with clients(cluster, topic, tmp_path) as processes:
        time.sleep(20)
        kill_one_after_the_other(cluster, topic)
        before = delete_the_events(cluster, topic, processes)
        time.sleep(20)
        take_the_leaders_of_the_events(cluster)
        time.sleep(20)
    await_in_sync(cluster, topic, f"{topic}-copy")
    time.sleep(5)
    wanted = truth(cluster, 1, [topic, f"{topic}-copy"])

    try:
        wait_until(lambda: wanted <= before | seen(cluster, topic), "every PID is seen")
    finally:
        found = before | seen(cluster, topic)
        print(f"{len(wanted)} PIDs, {len(wanted - found)} missing, {len(found - wanted)} wrong")
        print({user: sum(each == f"User:{user}" for each, _ in wanted) for user in USERS})
    assert found == wanted
    assert {user for user, _ in wanted} == {f"User:{user}" for user in USERS.keys() - {"admin"}}
    assert sum(each.dropped_events for each in reports_of(cluster, AliveReport)) == 0

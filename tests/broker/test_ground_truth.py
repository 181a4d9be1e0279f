"""Compares a tap's events with the batches that five client libraries wrote to a real cluster.

Brokers and taps are killed, leaders move, the class's files rotate, and a tap is away for minutes.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from kafka.record.memory_records import MemoryRecords

from broker.kafka.topics import ensure_topics
from jvm.jar_sets import kafka_classpath
from jvm.java import find_java
from tests.broker.churning_clients import PARTITIONS
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import LIMIT_S, read_events, wait_until
from tests.kits.cluster_kit import in_sync, reassign, replicated_topic
from tests.kits.go_kit import build_go_clients, find_go, go_command
from wire.topics import PRODUCE_EVENTS

USERS = {user: f"{user}-secret" for user in ("rd", "py", "java", "go", "copy", "admin")}
BY_VALUE = {b"one order": "go"}
"""What the Go client writes."""
FOLDER = Path(__file__).parent
AWAY_S = 120.0


@pytest.fixture
def cluster(jars: Path, tmp_path: Path) -> Iterator[LocalCluster]:
    nodes = LocalCluster(
        tmp_path / "cluster",
        USERS,
        jars=jars,
        allow_everyone_if_no_acl_found="false",
        auto_create_topics_enable="false",
        pid_quota_file_bytes=300_000,
        pid_quota_file_count=50,
    )
    with nodes as started:
        ensure_topics(started.admin_config(), replication_factor=3)
        yield started


def allow(cluster: LocalCluster, topic: str) -> None:
    """Each user may write the topics that begin with this name; nobody else may do anything."""
    prefixed, all_of = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
    wanted = [
        (ResourceType.TOPIC, topic, prefixed, AclOperation.WRITE),
        (ResourceType.TOPIC, topic, prefixed, AclOperation.READ),
        (ResourceType.GROUP, "*", all_of, AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, "*", all_of, AclOperation.WRITE),
    ]
    bindings = [
        AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user in USERS
        for kind, name, pattern, operation in wanted
    ]
    admin = AdminClient({**cluster.admin_config()})
    for made in admin.create_acls(bindings).values():
        made.result()


def make_copy_topic(cluster: LocalCluster, name: str) -> None:
    admin = AdminClient({**cluster.admin_config()})
    (made,) = admin.create_topics([NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})]).values()
    made.result()


@contextmanager
def clients(cluster: LocalCluster, topic: str, folder: Path) -> Iterator[None]:
    servers = cluster.bootstrap_servers
    commands = [
        [sys.executable, str(FOLDER / "churning_clients.py"), kind, servers, user, USERS[user], topic]
        for kind, user in (("librdkafka", "rd"), ("kafka-python", "py"), ("copy", "copy"))
    ]
    java = [find_java(), "-Xmx128m", "-cp", kafka_classpath(), str(FOLDER / "JavaChurn.java")]
    commands.append([*java, servers, "java", USERS["java"], topic])
    if find_go():
        program = build_go_clients(folder)
        commands.append(go_command(program, "franz-go", cluster.client_config("go"), topic, 1, "crowd"))
    with (folder / "clients.out").open("wb") as out:
        running = [subprocess.Popen(command, stdout=out, stderr=out, cwd=FOLDER.parents[1]) for command in commands]
        try:
            yield
        finally:
            if any(each.poll() is not None for each in running):
                print("a client has ended:", (folder / "clients.out").read_text(errors="replace")[-2000:])
            for each in running:
                each.kill()
                each.wait()


class Tap:
    """The command on one node's file."""

    def __init__(self, cluster: LocalCluster, node: int, folder: Path) -> None:
        self._command = [sys.executable, "-m", "jobs", "tap", "--bootstrap-servers", cluster.admin_servers]
        self._command += ["--log-file", str(cluster.log_file(node)), "--broker-id", str(node), "--no-asking"]
        self._command += ["--position-file", str(folder / f"tap-{node}.position")]
        self._output = folder / f"tap-{node}.out"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out, cwd=FOLDER.parents[1])

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._output.read_text()
        self._process.terminate()
        assert self._process.wait(LIMIT_S) == 0, self._output.read_text()


def truth(cluster: LocalCluster, node: int, topics: list[str]) -> set[tuple[str, int]]:
    """User and producer id of each batch in a node's own copy of the topics."""
    found = set()
    for segment in (cluster.log_file(node).parent / "data").glob("*/*.log"):
        if segment.parent.name.rpartition("-")[0] not in topics:
            continue
        records = MemoryRecords(segment.read_bytes())
        while records.has_next():
            batch = records.next_batch()
            if not batch.is_control_batch and batch.producer_id >= 0:
                for value in [bytes(record.value or b"") for record in batch]:
                    found.add((BY_VALUE.get(value, value.decode()), batch.producer_id))
    return found


@pytest.mark.slow
@pytest.mark.alone
def test_every_producer_id_of_five_client_libraries_is_its_users(cluster: LocalCluster, tmp_path: Path) -> None:
    topic = replicated_topic(cluster, "orders", PARTITIONS)
    allow(cluster, topic)
    make_copy_topic(cluster, f"{topic}-copy")
    taps = {node: Tap(cluster, node, tmp_path) for node in cluster.node_ids}
    with ExitStack() as stack:
        for tap in taps.values():
            tap.start()
            stack.callback(tap.kill)
        with clients(cluster, topic, tmp_path):
            time.sleep(20)
            taps[1].kill()
            away_s = time.monotonic()
            cluster.kill(2)
            time.sleep(15)
            cluster.start(2)
            wait_until(lambda: all(in_sync(cluster, topic, n) == {1, 2, 3} for n in range(PARTITIONS)), "in sync")
            reassign(cluster, topic, {n: [(n + k) % 3 + 1 for k in (1, 2, 0)] for n in range(PARTITIONS)})
            taps[3].kill()
            taps[3].start()
            while time.monotonic() < away_s + AWAY_S:
                time.sleep(1)
            taps[1].start()
            time.sleep(10)
        wait_until(lambda: all(in_sync(cluster, f"{topic}-copy", n) == {1, 2, 3} for n in range(PARTITIONS)), "in sync")
        time.sleep(5)
        expected = truth(cluster, 1, [topic, f"{topic}-copy"])
        wanted = {(f"User:{user}", pid) for user, pid in expected}

        def seen() -> set[tuple[str, int]]:
            events = [event for _, event in read_events(cluster, PRODUCE_EVENTS)]
            return {(event["principal"], event["producer_id"]) for event in events if event["topic"].startswith(topic)}

        try:
            wait_until(lambda: wanted <= seen(), "every producer id is seen")
        finally:
            found = seen()
            print(f"{len(wanted)} producer ids, {len(wanted - found)} missing, {len(found - wanted)} wrong")
            print({user: sum(each == user for each, _ in expected) for user in USERS})
        assert found == wanted
        stack.pop_all()
    for tap in taps.values():
        tap.stop()
    assert {user for user, _ in expected} == USERS.keys() - {"admin"}
    rotated = [
        len(list(cluster.log_file(node).parent.glob("pid-quota-broker.log.[0-9]*"))) for node in cluster.node_ids
    ]
    assert max(rotated) > 0

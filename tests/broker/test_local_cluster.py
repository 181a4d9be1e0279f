import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import LocalBrokerError
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import end_offset, produce, wait_until
from tests.kits.cluster_kit import in_sync, leader_of, replicated_topic
from tests.kits.process_kit import processes_naming

# Only tests use a cluster of three; those that do are slow themselves, but for a few.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, jars=jars) as running:
        yield running
    # Its watchdog ends when it sees the end of ours.
    wait_until(lambda: processes_naming(folder) == [], "no process is left")


def appended_by_client(log_file: Path, topic: str) -> bool:
    lines = (json.loads(line) for line in log_file.read_bytes().splitlines())
    return any(
        line["thread"].startswith("data-plane-kafka-request-handler")
        and line["message"].startswith(f"[ProducerStateManager partition={topic}-0]")
        for line in lines
    )


def test_a_killed_node_is_survived_and_comes_back(cluster: LocalCluster) -> None:
    topic = replicated_topic(cluster, "orders")
    alice = cluster.client_config("alice")
    produce(alice, topic)
    first_leader = leader_of(cluster, topic)

    cluster.kill(first_leader)
    assert first_leader not in cluster.running
    produce(alice, topic)
    assert leader_of(cluster, topic) != first_leader
    cluster.start(first_leader)

    wait_until(lambda: in_sync(cluster, topic) == {1, 2, 3}, "all replicas in sync")
    assert end_offset(cluster, topic) == 2
    assert cluster.running == (1, 2, 3)


def test_each_node_logs_what_it_led_itself(cluster: LocalCluster) -> None:
    topic = replicated_topic(cluster, "orders")
    produce(cluster.client_config("alice"), topic)

    led = [node for node in cluster.node_ids if appended_by_client(cluster.log_file(node), topic)]
    assert led == [leader_of(cluster, topic)]


def test_a_stopped_node_hands_its_leadership_over(cluster: LocalCluster) -> None:
    topic = replicated_topic(cluster, "orders")
    leader = leader_of(cluster, topic)

    cluster.stop(leader)
    produce(cluster.client_config("alice"), topic)
    cluster.start(leader)

    assert end_offset(cluster, topic) == 1


def test_an_unknown_node_is_named_with_the_known_ones(cluster: LocalCluster) -> None:
    with pytest.raises(LocalBrokerError, match="no node 4 in this cluster, only 1, 2, 3"):
        cluster.kill(4)


def test_an_address_before_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalBrokerError, match="not started"):
        _ = LocalCluster(tmp_path).bootstrap_servers


def test_all_nodes_die_with_a_killed_parent(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    program = (
        "import pathlib, sys, time; from tests.broker.local_cluster import LocalCluster\n"
        "with LocalCluster(pathlib.Path(sys.argv[1]), nodes=2, jars=pathlib.Path(sys.argv[2])):\n"
        "    print('up', flush=True); time.sleep(600)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", program, folder, jars], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    assert len(processes_naming(folder)) >= 3

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    wait_until(lambda: processes_naming(folder) == [], "all nodes gone")

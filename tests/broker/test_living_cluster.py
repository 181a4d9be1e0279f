"""The first hour on a cluster that is in use: the plugin is rolled in, the stream starts, and nobody old is charged."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import run
from tables.store.open import open_store
from tables.store.path_tables import create_missing
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import read_events, wait_until
from tests.kits.cluster_kit import KnownProducer, in_sync, leader_of, reassign, replicated_topic
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import NO_PLUGIN
from tests.kits.stream_command_kit import StreamCommand
from wire.topics import PRODUCE_EVENTS

USERS = {f"u{number:02d}": f"secret-{number:02d}" for number in range(20)} | {"mallory": "m"}
TRANSACTIONAL_PER_USER, IDEMPOTENT_PER_USER = 3, 7
PARTITIONS = 6
QUOTA = 3
FLOOD = 2500
FREE_PER_BROKER = 1100
"""PIDs of blocks that were open when the watch began."""


@pytest.fixture
def cluster(tmp_path: Path, jars: Path) -> Iterator[LocalCluster]:
    """A cluster without the plugin."""
    with LocalCluster(tmp_path / "cluster", USERS, jars=jars, metric_reporters=NO_PLUGIN) as started:
        yield started


class OldProducers:
    """200 producers that were there before the plugin: real transactional ones, and connections that hold PIDs."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._users = [user for user in USERS if user != "mallory"]
        self._transactional = [
            KnownProducer(cluster, user, f"tx-{user}-{number}")
            for user in self._users
            for number in range(TRANSACTIONAL_PER_USER)
        ]
        self._idempotent: dict[str, list[int]] = {}
        for user in self._users:
            with Hostile(cluster, user) as client:
                self._idempotent[user] = [client.producer_id() for _ in range(IDEMPOTENT_PER_USER)]
        self._wave = 0

    def produce(self) -> None:
        """Let each of them write to three partitions."""
        for number, producer in enumerate(self._transactional):
            producer.produce(self._topic, [(number + step) % PARTITIONS for step in range(3)])
        leaders = {partition: leader_of(self._cluster, self._topic, partition) for partition in range(PARTITIONS)}
        for user, pids in self._idempotent.items():
            for node in {*leaders.values()}:
                with Hostile(self._cluster, user, node=node) as client:
                    for number, pid in enumerate(pids):
                        for partition in ((number + step) % PARTITIONS for step in range(3)):
                            if leaders[partition] == node:
                                client.produce(self._topic, batch(pid, sequence=self._wave), partition=partition)
        self._wave += 1

    def pids(self) -> set[int]:
        known = {pid for producer in self._transactional for pid in producer.pids()}
        return known | {pid for pids in self._idempotent.values() for pid in pids}

    def close(self) -> None:
        for producer in self._transactional:
            producer.close()


def led_by_first(cluster: LocalCluster, topic: str) -> int:
    """A partition that node 1 leads: `Hostile` is connected to it."""
    reassign(cluster, topic, {0: [1, 2, 3]})
    return 0


def roll(cluster: LocalCluster, producers: OldProducers, topic: str) -> None:
    """Restart the brokers one after the other, while all producers go on."""
    for node in cluster.node_ids:
        cluster.stop(node)
        producers.produce()
        cluster.start(node)
        cluster.wait_for_plugin(node)
        wait_until(lambda: all(in_sync(cluster, topic, n) == {1, 2, 3} for n in range(PARTITIONS)), "in sync again")


def pids_with_events(cluster: LocalCluster, topic: str) -> set[int]:
    return {event.producer_id for event in read_events(cluster) if event.topic == topic}


def charged(tables: Path) -> dict[str, float]:
    """Admitted and distinct refused PIDs of each principal that has any."""
    query = (
        "SELECT principal, sum(admitted_pids + refused_pids) AS pids FROM principal_metrics GROUP BY principal "
        "HAVING pids > 0"
    )
    return dict(rows_of(tables, query))


def throttled(tables: Path) -> set[str]:
    return {name for (name,) in rows_of(tables, "SELECT DISTINCT principal FROM throttle_decisions")}


def rows_of(tables: Path, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in open_store(str(tables)).query(query, datetime.now(timezone.utc)).rows]


@pytest.mark.slow
@pytest.mark.alone
def test_old_producers_are_never_charged_and_a_flood_is_throttled_at_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = replicated_topic(cluster, "orders", PARTITIONS)
    producers = OldProducers(cluster, topic)
    producers.produce()
    old = producers.pids()

    # when the plugin is rolled in, and the stream starts
    cluster.change(metric_reporters=None)
    roll(cluster, producers, topic)
    stream = StreamCommand(tmp_path, cluster.admin_servers, PRODUCE_EVENTS, ["--trigger", "1 seconds"])
    create_missing(str(stream.tables))
    quota = f"producer_ids_rate={QUOTA}"
    alter = ["quotas", "--tables", str(stream.tables), "--alter", "--entity-type", "users", "--entity-default"]
    assert run([*alter, "--add-config", quota]) == 0
    with stream.running() as process:
        reassign(cluster, topic, {n: [n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(PARTITIONS)})
        producers.produce()
        wait_until(lambda: old <= pids_with_events(cluster, topic), "an event of each old PID", process)

        with Hostile(cluster, "mallory") as mallory:
            flood, partition = [mallory.producer_id() for _ in range(FLOOD)], led_by_first(cluster, topic)
            for pid in flood:
                mallory.produce(topic, batch(pid), partition=partition)
        wait_until(lambda: "User:mallory" in throttled(stream.tables), "she is throttled", process)
        wait_until(
            lambda: charged(stream.tables).get("User:mallory", 0) >= FLOOD - FREE_PER_BROKER, "her PIDs count", process
        )

        # then and after another rolling restart, nobody else is charged
        roll(cluster, producers, topic)
        producers.produce()
        before = charged(stream.tables)["User:mallory"]
        with Hostile(cluster, "mallory") as mallory:
            last = mallory.producer_id()
            mallory.produce(topic, batch(last), partition=led_by_first(cluster, topic))
        wait_until(lambda: charged(stream.tables)["User:mallory"] > before, "her last PID counts", process)
        print(f"old PIDs: {len(old)}, charged: {charged(stream.tables)}")
        assert charged(stream.tables).keys() == {"User:mallory"}
        assert throttled(stream.tables) == {"User:mallory"}
        assert len(old) == 200
    producers.close()

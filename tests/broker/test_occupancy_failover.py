"""Compares the predicted leaders and holders of producers with a real cluster after a broker was killed."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from broker.occupancy.census import TakenCensus
from broker.occupancy.census_report import make_report
from jobs.occupancy.printing import report_dict
from lifecycle.failover import failover
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import LIMIT_S, wait_until
from tests.kits.cluster_kit import addresses_of_the_living, replicated_topic
from tests.kits.occupancy_kit import broker_counts, census_of, fill
from tests.kits.process_kit import left_of

PARTITIONS = 6
LEAST, MORE = 10, 7


@pytest.fixture
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, jars=jars) as running:
        yield running
    assert left_of(folder) == []


def fill_all(cluster: LocalCluster, topic: str, first_pid: int) -> int:
    """Another number of producers on each partition; returns how many."""
    leaders: dict[int, int] = {}

    def all_are_led() -> bool:
        placements = census_of(cluster.admin_servers).census.placements
        leaders.update({each.partition: each.leader for each in placements if each.topic == topic and each.leader})
        return len(leaders) == PARTITIONS

    wait_until(all_are_led, f"{topic} has leaders")
    now_ms = round(time.time() * 1000)
    producers = {
        partition: [(first_pid + pid, now_ms) for pid in range(LEAST + MORE * partition)] for partition in leaders
    }
    fill(cluster.admin_servers, topic, leaders, producers)
    return sum(map(len, producers.values()))


def dead_is_replaced(admin: AdminClient, cluster: LocalCluster, dead: int) -> bool:
    about = admin.list_topics(timeout=LIMIT_S)
    leaders = {each.leader for topic in about.topics.values() for each in topic.partitions.values()}
    return dead not in about.brokers and leaders <= set(cluster.running)


def led(taken: TakenCensus, broker_id: int) -> int:
    return sum(len(each) for each in taken.census.of_broker(broker_id) if each.is_leader)


@pytest.mark.slow
def test_the_dead_broker_s_producers_are_led_by_whom_was_foretold_and_nobody_holds_more(cluster: LocalCluster) -> None:
    everywhere = fill_all(cluster, replicated_topic(cluster, "orders", PARTITIONS), 1_000_000)
    on_two = fill_all(cluster, replicated_topic(cluster, "audit", PARTITIONS, replicas=2), 2_000_000)

    def all_copied() -> bool:
        return sum(map(len, census_of(cluster.admin_servers).census.replicas)) == 3 * everywhere + 2 * on_two

    wait_until(all_copied, "the followers have all of it")
    before = census_of(cluster.admin_servers)
    # Followers hold what they replicate, and the brokers count it so.
    assert [before.census.held(node) for node in (1, 2, 3)] == broker_counts(*map(cluster.pid, (1, 2, 3)))
    assert sum(led(before, node) for node in (1, 2, 3)) == everywhere + on_two
    assert report_dict(make_report(before, {}))["unanswered"] == []
    dead = max((1, 2, 3), key=lambda node: led(before, node))
    foretold = failover(before.census, dead)

    cluster.kill(dead)
    admin = AdminClient({"bootstrap.servers": addresses_of_the_living(cluster), "log_level": 0})
    wait_until(lambda: dead_is_replaced(admin, cluster, dead), "the survivors lead everything")
    after = census_of(addresses_of_the_living(cluster))
    counts = broker_counts(*(cluster.pid(each.broker_id) for each in foretold.survivors))

    assert foretold.leaderless == ()
    assert sum(led(after, each.broker_id) for each in foretold.survivors) == everywhere + on_two
    for survivor, count in zip(foretold.survivors, counts, strict=True):
        assert led(after, survivor.broker_id) == pytest.approx(survivor.led_pids, rel=0.05)
        assert survivor.led_pids >= survivor.led_before
        assert after.census.held(survivor.broker_id) == pytest.approx(survivor.held_pids, rel=0.01)
        assert count == after.census.held(survivor.broker_id)
    # The dead one is missed, not forgotten.
    assert (list(before.down), list(after.down)) == ([], [dead])
    print(_as_lines(before, foretold.dead, after))


def _as_lines(before: TakenCensus, dead: int, after: TakenCensus) -> str:
    """Figures for whoever runs it with -s."""
    rows = (
        f"broker {each.broker_id}: led {each.led_before} -> foretold {each.led_pids}, is {led(after, each.broker_id)}; "
        f"held {each.held_pids} -> is {after.census.held(each.broker_id)}"
        for each in failover(before.census, dead).survivors
    )
    return "\n".join((f"broker {dead} killed", *rows))

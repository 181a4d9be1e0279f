import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaEntity
from broker.local.local_broker import LocalBroker
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import wait_until
from tests.kits.cluster_kit import addresses_of_the_living
from tests.kits.enforce_kit import actions, decide, enforcing, killed_after, quotas_of
from tests.kits.hold_kit import LOADING, Asker, is_at_end

pytestmark = pytest.mark.slow
ODD_NAMES = [
    "CN=app 1,OU=Süd",
    "with:colon",
    "a*b",
    "service@EXAMPLE.COM",
    'quo"te',
    "pid-quota-hold:1:x",
    "emoji-\U0001f600",
]


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with the authorizer."""
    with LocalCluster(tmp_path_factory.mktemp("holding"), jars=jars, holders=(1, 2, 3)) as running:
        yield running


@pytest.mark.parametrize("by_kill", [True, False], ids=["killed", "stopped"])
def test_a_broker_that_restarts_during_a_hold_keeps_it_until_its_end(
    jars: Path, tmp_path: Path, tables: Path, by_kill: bool
) -> None:
    with (
        LocalBroker(tmp_path / "kafka", jars=jars, holds=True) as broker,
        enforcing(broker, tables, "--apply") as enforcer,
    ):
        until = decide(tables, "User:mallory", seconds=60)
        enforcer.wait_for("throttled")

        if by_kill:
            broker.kill()
        else:
            broker.stop()
        broker.start()

        with Asker(broker) as mallory, Asker(broker, "alice") as alice:
            wait_until(lambda: alice.error() == 0, "alice gets an id")
            assert time.time() < until.timestamp(), "the restart took longer than the hold"
            assert mallory.error() == LOADING
            wait_until(lambda: mallory.error() == 0, "she is free")
            assert is_at_end(time.time(), until.timestamp())
        enforcer.wait_for("restored")
    wait_until(lambda: actions(tables)[-1] == "restored", "the row")


def test_a_broker_that_dies_during_a_hold_changes_nothing_for_the_others(cluster: LocalCluster, tables: Path) -> None:
    with enforcing(cluster, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", seconds=120)
        enforcer.wait_for("throttled")
        cluster.kill(3)
        try:
            # A decision is taken up, and the end of another, while it is down.
            until = decide(tables, "User:mallory", seconds=40)
            decide(tables, "User:eve", seconds=40)
            wait_until(
                lambda: [n["user"] for n in enforcer.notices_of("throttled")] == ["mallory", "eve"], "eve is held"
            )
            living = addresses_of_the_living(cluster)
            with HoldBindings({"bootstrap_servers": living.split(",")}) as holds:
                wait_until(lambda: holds.all() == [], "both are free")
                assert is_at_end(time.time(), until.timestamp())
        finally:
            cluster.start(3)
        wait_until(lambda: len(enforcer.notices_of("restored")) == 2, "the enforcer says so")
    with Asker(cluster) as mallory:
        wait_until(lambda: {mallory.error(node) for node in cluster.node_ids} == {0}, "no broker holds her")


def test_a_broker_that_comes_back_without_the_class_brings_the_next_lever(cluster: LocalCluster, tables: Path) -> None:
    with enforcing(cluster, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", seconds=600)
        enforcer.wait_for("throttled")
        cluster.stop(3)
        cluster.start(3, holds=False)
        try:
            enforcer.wait_for("lever", "broker 3 has org.apache.kafka.metadata.authorizer.StandardAuthorizer")
            decide(tables, "User:mallory", seconds=500)
            wait_until(
                lambda: quotas_of(cluster) == {QuotaEntity("mallory"): {"request_percentage": 0.01}}, "the next lever"
            )
            enforcer.wait_for("throttled", "no hold: not every broker has the authorizer (not 3)")
        finally:
            cluster.stop(3)
            cluster.start(3)
    wait_until(lambda: quotas_of(cluster) == {}, "all is taken back")
    with HoldBindings({"bootstrap_servers": cluster.admin_servers.split(",")}) as holds:
        wait_until(lambda: holds.all() == [], "the hold, too")


@pytest.mark.parametrize("lever", ["hold", "request_percentage"])
def test_users_with_odd_names_are_throttled_each_for_itself_and_are_free_afterwards(
    cluster: LocalCluster, tables: Path, lever: str
) -> None:
    def throttled() -> set[str | None]:
        return {each.user for each in (holds.all() if lever == "hold" else quotas_of(cluster))}

    with HoldBindings({"bootstrap_servers": cluster.admin_servers.split(",")}) as holds, Asker(cluster) as mallory:
        wait_until(lambda: {mallory.error(node) for node in cluster.node_ids} == {0}, "all brokers have producer ids")
        # Some ends are left to the next one.
        with killed_after(cluster, tables, "--apply", "--lever", lever):
            # The last is everybody to an ACL: it can't be a user's name.
            for name in [*ODD_NAMES, "*"]:
                decide(tables, f"User:{name}", seconds=30)
            wait_until(lambda: throttled() >= {*ODD_NAMES}, "all are throttled")
            assert {mallory.error(node) for node in cluster.node_ids} == {0}
        with enforcing(cluster, tables, "--apply", "--lever", lever):
            wait_until(lambda: throttled() == set(), "all are free")

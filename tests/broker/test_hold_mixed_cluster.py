from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from broker.kafka.acls import Acls
from broker.kafka.holds import HoldBindings
from broker.kafka.producers import ProducersAdmin
from broker.kafka.quota_entity import QuotaEntity
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import LIMIT_S, wait_until
from tests.kits.cluster_kit import addresses_of_the_living
from tests.kits.enforce_kit import decide, enforcing, quotas_of
from tests.kits.hold_kit import LOADING, Asker, bound, hold
from wire.holds import HOLD_AUTHORIZER

pytestmark = pytest.mark.slow
STOCK = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WITHOUT = 3


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("mixed")
    with LocalCluster(folder, jars=jars, holders=(1, 2)) as running:
        yield running


def holds_of(cluster: LocalCluster) -> HoldBindings:
    return HoldBindings({"bootstrap_servers": addresses_of_the_living(cluster).split(",")})


def test_a_hold_is_inert_on_the_broker_without_the_authorizer(cluster: LocalCluster) -> None:
    with bound(cluster, hold(600)), Asker(cluster) as mallory, Asker(cluster, "alice") as alice:
        wait_until(lambda: {alice.error(node) for node in cluster.node_ids} == {0}, "all brokers have producer ids")
        wait_until(lambda: mallory.error(1) == mallory.error(2) == LOADING, "the hold has reached both")
        assert mallory.error(WITHOUT) == 0


def test_the_enforcer_reports_each_broker_and_sets_the_client_quota(cluster: LocalCluster, tables: Path) -> None:
    with holds_of(cluster) as holds, enforcing(cluster, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", seconds=300)
        enforcer.wait_for("throttled")
        for node in (1, 2):
            assert enforcer.notices_of("lever", f"broker {node} has {HOLD_AUTHORIZER}: a hold delays new producer ids")
        assert enforcer.notices_of("lever", f"broker {WITHOUT} has {STOCK}: no hold is used before every broker has")
        assert enforcer.notices_of("throttled", f"no hold: not every broker has the authorizer (not {WITHOUT})")
        assert holds.all() == []
        assert quotas_of(cluster) == {QuotaEntity("mallory"): {"request_percentage": 0.01}}
    wait_until(lambda: quotas_of(cluster) == {}, "the quota is taken back")


def test_a_broker_that_is_dead_is_not_asked(cluster: LocalCluster, tables: Path) -> None:
    cluster.kill(WITHOUT)
    try:
        watcher = AdminClient({**cluster.admin_config()})
        wait_until(lambda: WITHOUT not in watcher.list_topics(timeout=LIMIT_S).brokers, "the others have noticed")
        with ProducersAdmin({"bootstrap_servers": addresses_of_the_living(cluster).split(",")}) as admin:
            assert list(admin.brokers()) == [1, 2]
            # Brokers do not show it: none has failed.
            assert Acls(admin).allows_without_acl() is None
        with holds_of(cluster) as holds:
            assert holds.authorizers() == {1: HOLD_AUTHORIZER, 2: HOLD_AUTHORIZER}
            with enforcing(cluster, tables, "--apply") as enforcer:
                decide(tables, "User:mallory", seconds=300)
                enforcer.wait_for("throttled")
                assert not enforcer.notices_of("lever", f"broker {WITHOUT}")
                assert [each.user for each in holds.all()] == ["mallory"]
            wait_until(lambda: holds.all() == [], "the hold is taken back")
    finally:
        cluster.start(WITHOUT)

"""Refusals that an enforcer of an earlier version left on a real broker: ACLs, and an open lease in the lease topic."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaError

from broker.cluster.acl_bindings import AclBinding, AclBindings
from broker.cluster.client_quotas import QuotaChange
from broker.cluster.former_refusals import ALLOWED, REFUSE, REFUSED, FormerRefusals
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.lease_topic import LeaseTopic
from broker.enforcer.lock import ensure_enforcer_topic
from broker.leases.lease_rules import Lease, action_of_lease
from broker.local.local_broker import LocalBroker
from tables.delta import create_missing
from tests.broker.enforce_kit import EnforcerProcess, actions, enforcing
from tests.broker.hold_kit import Asker
from tests.broker_kit import wait_until

ACLS = [
    AclBinding("cluster", "kafka-cluster", "User:*", "all", "allow"),
    AclBinding("cluster", "kafka-cluster", "User:mallory", "idempotent_write"),
    AclBinding("topic", "hardcode", "User:mallory", "write"),
]


def an_enforcer(broker: LocalBroker, tables: Path) -> None:
    with enforcing(broker, tables, "--apply") as enforcer:
        enforcer.wait_for("restored", "its lever is gone")


def the_kill_switch(broker: LocalBroker, tables: Path) -> None:
    switch = EnforcerProcess(broker, tables, "--release-all")
    switch.start()
    assert switch.wait() == (0, "")


@pytest.mark.parametrize("end", [an_enforcer, the_kill_switch])
def test_a_refusal_ends_long_before_its_time(
    jars: Path, tmp_path: Path, end: Callable[[LocalBroker, Path], None]
) -> None:
    tables = tmp_path / "tables"
    create_missing(str(tables))
    with (
        LocalBroker(tmp_path / "kafka", jars=jars) as broker,
        AclBindings({"bootstrap_servers": broker.admin_servers}) as acls,
        Asker(broker) as mallory,
    ):
        acls.create(ACLS)
        leave_a_lease(broker)
        wait_until(lambda: mallory.error() == KafkaError.CLUSTER_AUTHORIZATION_FAILED, "she is refused")

        end(broker, tables)

        wait_until(lambda: mallory.error() == 0, "she is not")
        wait_until(lambda: acls.find("cluster") + acls.find("topic") == [], "no ACL is left")
        with LeaseTopic(broker.admin_config()) as topic:
            assert [action for action in topic.read(again=True) if action.lease] == []
    assert "restored" in actions(tables)


class Acls:
    """A fake of `AclBindings` on a broker that has not heard yet of what was deleted."""

    def __init__(self, *bindings: AclBinding) -> None:
        self.bindings, self.deleted = bindings, list[AclBinding]()

    def find(self, kind: str) -> list[AclBinding]:
        return [each for each in self.bindings if each.resource_type == kind]

    def delete(self, bindings: Sequence[AclBinding]) -> None:
        self.deleted += bindings


@pytest.mark.parametrize("previous", [[None], [ALLOWED], [ALLOWED, None]])
def test_the_allow_for_everyone_goes_unless_it_was_there_before(previous: list[float | None]) -> None:
    acls, said = Acls(*ACLS), list[str]()
    changes = [QuotaChange(QuotaEntity("mallory", is_hold=True), REFUSE, value) for value in previous]

    FormerRefusals(cast("AclBindings", acls), said.append).alter(changes)

    allow, *denials = ACLS
    assert {*acls.deleted} == {*denials, *([allow] if None in previous else [])}
    assert said == []


def test_the_allow_for_everyone_stays_and_is_told_where_other_acls_need_it() -> None:
    acls, said = Acls(*ACLS, AclBinding("cluster", "kafka-cluster", "User:bob", "alter", "allow")), list[str]()

    FormerRefusals(cast("AclBindings", acls), said.append).alter(
        [QuotaChange(QuotaEntity("mallory", is_hold=True), REFUSE, None)]
    )

    assert {*acls.deleted} == {*ACLS[1:]}
    assert len(said) == 1
    assert "the cluster has 1 other ACLs" in said[0]


def leave_a_lease(broker: LocalBroker) -> None:
    now_ms = round(time.time() * 1000)
    entity = QuotaEntity("mallory", is_hold=True)
    lease = Lease(
        "1", "User:mallory", entity, REFUSE, None, REFUSED, now_ms + 3_000_000, "d", state="in_force", set_ms=now_ms
    )
    ensure_enforcer_topic(broker.admin_config())
    with LeaseTopic(broker.admin_config()) as topic:
        topic.append([action_of_lease(lease, now_ms, "20 PIDs refused", "former")])

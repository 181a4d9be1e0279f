"""Leases of the lever `refuse`, which earlier versions had: any enforcer ends them, and removes their ACLs."""

from collections.abc import Sequence

import pytest

from broker.cluster.acl_bindings import AclBinding, AclBindings
from broker.cluster.client_quotas import QuotaChange
from broker.cluster.former_refusals import ALLOWED, REFUSE, REFUSED, FormerRefusals
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer_tables.action_rows import action_of, action_row
from broker.errors import ClientQuotaError
from broker.leases.lease_rules import Lease, LeaseState, action_of_lease, open_leases
from broker.leases.lease_targets import Lever
from tests.unit.broker.enforcer.enforcer_kit import START_MS, World, unavailable

NEW_PIDS = QuotaEntity("mallory", is_hold=True)
OF_ALICE = QuotaEntity("alice", is_hold=True)
LATER_MS = START_MS + 600_000
LEASE = Lease("1", "User:mallory", NEW_PIDS, REFUSE, None, REFUSED, LATER_MS, "d", "in_force", START_MS)
ALLOW = AclBinding("cluster", "kafka-cluster", "User:*", "all", "allow")


def denials(user: str) -> list[AclBinding]:
    return [
        AclBinding("cluster", "kafka-cluster", f"User:{user}", "idempotent_write"),
        AclBinding("topic", "hardcode", f"User:{user}", "write"),
    ]


class TestALease:
    @pytest.mark.parametrize("lever", ["request_percentage", "hold"])
    @pytest.mark.parametrize("state", ["applying", "in_force", "restoring"])
    def test_ends_at_the_start_of_an_enforcer_long_before_its_time(self, lever: Lever, state: LeaseState) -> None:
        world = World(lever=lever, narrow=False)
        world.store.append([action_of_lease(LEASE.to(state), START_MS, "", "former")])
        world.reconcile()
        assert world.broker.altered == [QuotaChange(NEW_PIDS, REFUSE, None)]
        assert (world.enforcer.leases, world.store.kept) == ({}, {})
        (notice,) = world.said("restored")
        assert "(new producer ids of user 'mallory': refuse is over): its lever is gone" in notice.line()

    def test_that_only_the_table_has_ends_too(self) -> None:
        world = World()
        world.log.append([action_of_lease(LEASE, START_MS, "", "former")])
        world.reconcile()
        assert world.broker.altered == [QuotaChange(NEW_PIDS, REFUSE, None)]
        assert world.enforcer.leases == {}

    def test_is_tried_again_until_its_acls_are_gone(self) -> None:
        world = World()
        world.store.append([action_of_lease(LEASE, START_MS, "", "former")])
        world.broker.errors[NEW_PIDS] = unavailable()
        world.reconcile()
        assert world.enforcer.leases.keys() == {NEW_PIDS}
        world.broker.errors.clear()
        world.reconcile(1)
        assert world.enforcer.leases == {}

    def test_is_not_renewed_and_makes_room_for_a_hold(self) -> None:
        world = World(lever="hold")
        world.store.append([action_of_lease(LEASE, START_MS, "", "former")])
        world.decide(seconds=900)
        world.reconcile()
        assert (world.said("extended"), world.enforcer.leases) == ([], {})
        world.reconcile(1)
        assert world.broker.quotas.keys() == {NEW_PIDS}
        assert world.broker.quotas[NEW_PIDS].keys() == {HOLD}

    def test_is_read_from_old_rows_of_the_table(self) -> None:
        row = action_row(action_of_lease(LEASE, START_MS, "2 PIDs refused", "former"), 0)
        action = action_of(row)
        assert (row["quota_key"], action.lease) == ("refuse", LEASE)
        assert open_leases([action]) == {NEW_PIDS: LEASE.to("restoring")}


class MemoryAcls(AclBindings):
    """The ACLs of a cluster; they are listed as they were if a broker is slow to hear of changes."""

    def __init__(self, *acls: AclBinding) -> None:
        super().__init__({})
        self.there, self.listed = list(acls), list[AclBinding]()
        self.broken: ClientQuotaError | None = None

    def find(
        self, resource_type: str, _operation: str | None = None, _principal: str | None = None
    ) -> list[AclBinding]:
        return [each for each in self.listed or self.there if each.resource_type == resource_type]

    def delete(self, bindings: Sequence[AclBinding]) -> None:
        if self.broken:
            raise self.broken
        self.there = [each for each in self.there if each not in bindings]


class Cluster:
    def __init__(self, *acls: AclBinding) -> None:
        self.acls, self.warnings = MemoryAcls(*acls), list[str]()
        self._refusals = FormerRefusals(self.acls, self.warnings.append)

    def end(self, *entities: QuotaEntity, before: float | None = None) -> list[ClientQuotaError | None]:
        return [*self._refusals.alter([QuotaChange(entity, REFUSE, before) for entity in entities]).values()]


class TestItsAcls:
    def test_are_removed_with_the_allow_that_preceded_them(self) -> None:
        orders = AclBinding("topic", "orders", "User:bob", "write", "allow")
        cluster = Cluster(ALLOW, *denials("mallory"), orders)
        assert cluster.end(NEW_PIDS) == [None]
        assert (cluster.acls.there, cluster.warnings) == ([orders], [])

    @pytest.mark.parametrize("is_slow", [False, True])
    def test_of_several_users_are_removed_at_once(self, is_slow: bool) -> None:
        cluster = Cluster(ALLOW, *denials("mallory"), *denials("alice"))
        cluster.acls.listed = list(cluster.acls.there) if is_slow else []
        assert cluster.end(NEW_PIDS, OF_ALICE) == [None, None]
        assert (cluster.acls.there, cluster.warnings) == ([], [])

    def test_leave_an_allow_that_was_there_before_them(self) -> None:
        cluster = Cluster(ALLOW, *denials("mallory"))
        cluster.end(NEW_PIDS, before=ALLOWED)
        assert (cluster.acls.there, cluster.warnings) == ([ALLOW], [])

    def test_leave_an_allow_that_other_acls_need_and_that_is_said(self) -> None:
        by_hand = AclBinding("cluster", "kafka-cluster", "User:admin", "all", "allow")
        cluster = Cluster(ALLOW, *denials("mallory"), by_hand)
        cluster.end(NEW_PIDS)
        assert cluster.acls.there == [ALLOW, by_hand]
        (warning,) = cluster.warnings
        assert "stays, although an enforcer added it: the cluster has 1 other ACLs" in warning
        assert "kafka-acls.sh --remove --allow-principal 'User:*' --operation All --cluster" in warning

    def test_that_can_t_be_removed_now_are_an_error_of_each_user(self) -> None:
        cluster = Cluster(ALLOW, *denials("mallory"))
        cluster.acls.broken = unavailable()
        assert cluster.end(NEW_PIDS, OF_ALICE) == [cluster.acls.broken] * 2

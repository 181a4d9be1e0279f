"""The enforcer with the lever `refuse`, against twins in memory."""

from collections.abc import Collection, Sequence

import pytest

from broker.cluster.acl_bindings import AclBinding
from broker.cluster.broker_settings import AUTHORIZER
from broker.cluster.client_quotas import REQUEST_PERCENTAGE, QuotaChange
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.cluster.refusal_bindings import ALLOW_EVERYONE, ALLOWED, REFUSE, REFUSED, RefusalBindings, denials
from broker.cluster.refusal_facts import RefusalFacts
from broker.enforcer.notices import Notice
from broker.enforcer.ports import Clocks
from broker.enforcer.refusal_coverage import RefusalCoverage
from broker.errors import ClientQuotaRefusedError, ClientQuotaUnavailableError
from broker.leases.refusal_rules import ALLOW_EVERYONE_SETTING, SUPER_USERS_SETTING
from tests.unit.broker.enforcer.enforcer_kit import MALLORY, START_MS, World, unavailable

NEW_PIDS = QuotaEntity("mallory", is_hold=True)
OF_ALICE = QuotaEntity("alice", is_hold=True)
BOTH_REFUSED = {NEW_PIDS: {REFUSE: REFUSED}, OF_ALICE: {REFUSE: REFUSED}}
BROKER = {AUTHORIZER: "org.apache.kafka.metadata.authorizer.StandardAuthorizer", ALLOW_EVERYONE_SETTING: None}
OPEN = RefusalFacts({1: BROKER}, (), (), has_hardcode=False, ordinary_on=frozenset({1}))
THROTTLED = {REQUEST_PERCENTAGE: 0.01}


@pytest.fixture
def world() -> World:
    return World(lever="refuse", narrow=False)


class TestARefusal:
    def test_is_set_and_taken_away_when_it_is_due(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        assert world.broker.quotas == {NEW_PIDS: {REFUSE: REFUSED}}
        world.reconcile(60)
        assert world.broker.quotas == {}
        assert world.log.states(NEW_PIDS) == ["applying", "in_force", "restoring", "restored"]
        assert "(new producer ids of user 'mallory': refuse in force)" in world.said("throttled")[0].line()
        assert "(new producer ids of user 'mallory': refuse is over)" in world.said("restored")[0].line()

    def test_a_renewal_moves_its_end_and_leaves_the_acls(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        world.reconcile(50)
        world.decide(seconds=60)
        world.reconcile()
        assert world.broker.writes(NEW_PIDS) == [REFUSED]
        world.reconcile(59)
        assert world.broker.quotas == {NEW_PIDS: {REFUSE: REFUSED}}
        world.reconcile(1)
        assert world.broker.quotas == {}

    def test_may_last_as_long_as_any_other_lease(self, world: World) -> None:
        world.decide(seconds=100_000)
        world.reconcile()
        (lease,) = world.enforcer.leases.values()
        assert lease.until_ms == START_MS + world.options.max_lease_ms

    def test_what_everyone_was_allowed_before_is_restored(self, world: World) -> None:
        world.broker.set(NEW_PIDS, ALLOWED, REFUSE)
        world.decide(seconds=60)
        world.reconcile()
        world.reconcile(60)
        assert world.broker.quotas == {NEW_PIDS: {REFUSE: ALLOWED}}

    def test_an_allow_of_ours_is_no_value_to_come_back_to(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        world.broker.set(OF_ALICE, ALLOWED, REFUSE)
        world.decide("User:alice", seconds=90)
        world.reconcile()
        assert world.broker.quotas == BOTH_REFUSED
        world.reconcile(90)
        assert world.broker.quotas == {}

    def test_somebody_else_s_stands(self, world: World) -> None:
        world.broker.set(NEW_PIDS, REFUSED, REFUSE)
        world.decide(seconds=60)
        world.reconcile()
        assert "not by us" in world.said("skipped")[0].why
        world.reconcile(60)
        assert world.broker.quotas == {NEW_PIDS: {REFUSE: REFUSED}}

    @pytest.mark.parametrize("left", [None, ALLOWED])
    def test_who_removes_an_acl_of_it_ends_it_and_what_is_left_is_removed(
        self, world: World, left: float | None
    ) -> None:
        world.decide(seconds=300)
        world.reconcile()
        world.broker.set(NEW_PIDS, left, REFUSE)
        world.reconcile(30)
        assert world.log.states(NEW_PIDS)[-1] == "relinquished"
        assert world.broker.writes(NEW_PIDS) == [REFUSED, None]
        world.decide(seconds=400)
        world.reconcile(1)
        assert world.broker.quotas == {}
        assert "someone else" in world.said("skipped")[-1].why

    def test_what_is_left_is_tried_again_until_it_is_removed(self, world: World) -> None:
        world.decide(seconds=300)
        world.reconcile()
        world.broker.set(NEW_PIDS, ALLOWED, REFUSE)
        world.broker.errors[NEW_PIDS] = unavailable()
        world.reconcile(30)
        assert world.log.states(NEW_PIDS)[-1] == "in_force"
        world.broker.errors.clear()
        world.reconcile(1)
        assert (world.log.states(NEW_PIDS)[-1], world.broker.quotas) == ("relinquished", {})


def test_where_it_is_not_proven_to_work_a_client_quota_is_set_and_why_is_said(world: World) -> None:
    world.coverage.why_not = "there is a topic 'hardcode'"
    world.decide(seconds=60)
    world.reconcile()
    assert world.broker.quotas == {MALLORY: THROTTLED}
    assert "a client quota instead of a refusal: there is a topic 'hardcode'" in world.said("throttled")[0].why


def test_refused_pids_that_go_on_arriving_bring_the_client_quota(world: World) -> None:
    world.decide(seconds=60, refused_pids=10)
    world.reconcile()
    for refused in (3000, 6000):
        assert world.broker.quotas.keys() == {NEW_PIDS}
        world.reconcile(55)
        world.decide(seconds=60, refused_pids=refused)
        world.reconcile()
    assert world.broker.quotas == {NEW_PIDS: {REFUSE: REFUSED}, MALLORY: THROTTLED}
    (notice,) = [notice for notice in world.said("throttled") if "arriving" in notice.why]
    assert "under a refusal (3000, then 6000): handed out before it, or with new transactional ids, or to a super" in (
        notice.why
    )


def test_one_without_a_lease_is_said_with_the_way_to_clear_it_and_left_alone(world: World) -> None:
    world.broker.set(NEW_PIDS, REFUSED, REFUSE)
    world.reconcile()
    (alert,) = world.said("alert")
    assert "--deny-principal User:mallory --operation IdempotentWrite --cluster" in alert.why
    assert "--deny-principal User:mallory --operation Write --topic hardcode" in alert.why
    assert world.broker.quotas == {NEW_PIDS: {REFUSE: REFUSED}}


class MemoryAcls:
    """The ACLs of a cluster; a broker hears of deletions late if it is `slow`."""

    def __init__(self, *acls: AclBinding) -> None:
        self.there, self.slow = list(acls), False
        self.heard = list(acls)
        self.refused: Collection[AclBinding] = ()
        self.deleted: list[AclBinding] = []

    def find(self, resource_type: str, _operation: str | None = None, principal: str | None = None) -> list[AclBinding]:
        seen = self.heard if self.slow else self.there
        return [each for each in seen if each.resource_type == resource_type and principal in (None, each.principal)]

    def create(self, bindings: Sequence[AclBinding]) -> None:
        self.there += [each for each in bindings if each not in self.there and each not in self.refused]
        self.heard = list(self.there)
        if {*bindings} & {*self.refused}:
            msg = "invalid"
            raise ClientQuotaRefusedError(msg)

    def delete(self, bindings: Sequence[AclBinding]) -> None:
        self.deleted += bindings
        self.there = [each for each in self.there if each not in bindings]


class Cluster:
    """A cluster with ACLs, and what sets refusals on it."""

    def __init__(self, *acls: AclBinding, trouble: str = "") -> None:
        self.acls, self.warnings, self.trouble = MemoryAcls(*acls), list[str](), trouble
        self.bindings = RefusalBindings(self.acls, trouble=lambda: self.trouble, warn=self.warnings.append)

    def set(self, value: float | None, entity: QuotaEntity = NEW_PIDS) -> Exception | None:
        return self.bindings.alter([QuotaChange(entity, REFUSE, value)])[entity]


class TestItsAcls:
    def test_an_allow_for_everyone_comes_first_and_goes_last(self) -> None:
        cluster = Cluster()
        assert cluster.set(REFUSED) is None
        assert cluster.acls.there == [ALLOW_EVERYONE, *denials("User:mallory")]
        assert cluster.bindings.describe(NEW_PIDS) == {REFUSE: REFUSED}
        assert cluster.bindings.describe(OF_ALICE) == {REFUSE: ALLOWED}
        assert cluster.bindings.describe_all() == {NEW_PIDS: {REFUSE: REFUSED}}
        assert cluster.set(None) is None
        assert (cluster.acls.there, cluster.warnings) == ([], [])

    def test_the_allow_stays_while_another_is_refused(self) -> None:
        cluster = Cluster()
        cluster.set(REFUSED)
        cluster.set(REFUSED, OF_ALICE)
        cluster.set(None)
        assert cluster.acls.there == [ALLOW_EVERYONE, *denials("User:alice")]
        cluster.set(None, OF_ALICE)
        assert (cluster.acls.there, cluster.warnings) == ([], [])

    def test_the_allow_goes_also_if_a_broker_still_lists_what_was_deleted(self) -> None:
        cluster = Cluster()
        cluster.set(REFUSED)
        cluster.set(REFUSED, OF_ALICE)
        cluster.acls.slow = True
        cluster.bindings.alter([QuotaChange(entity, REFUSE, None) for entity in (NEW_PIDS, OF_ALICE)])
        assert (cluster.acls.there, cluster.warnings) == ([], [])

    def test_the_allow_stays_for_who_is_refused_again_while_another_goes(self) -> None:
        cluster = Cluster()
        for value, entity in ((REFUSED, NEW_PIDS), (None, NEW_PIDS), (REFUSED, NEW_PIDS), (REFUSED, OF_ALICE)):
            cluster.set(value, entity)
        cluster.set(None, OF_ALICE)
        assert cluster.acls.there == [ALLOW_EVERYONE, *denials("User:mallory")]

    def test_the_allow_comes_again_although_a_broker_still_lists_the_one_that_was_deleted(self) -> None:
        cluster = Cluster()
        cluster.set(REFUSED)
        cluster.acls.slow = True
        cluster.set(None)
        cluster.set(REFUSED)
        assert ALLOW_EVERYONE in cluster.acls.there

    def test_what_could_not_be_set_goes_with_the_allow_last(self) -> None:
        cluster = Cluster()
        cluster.acls.refused = denials("User:mallory")[1:]
        cluster.set(REFUSED)
        assert cluster.acls.there == []
        assert cluster.acls.deleted[-1] == ALLOW_EVERYONE

    def test_an_allow_that_was_there_stays(self) -> None:
        cluster = Cluster(ALLOW_EVERYONE)
        cluster.set(REFUSED)
        cluster.set(ALLOWED)
        assert (cluster.acls.there, cluster.warnings) == ([ALLOW_EVERYONE], [])

    def test_an_allow_of_ours_stays_beside_acls_set_by_hand_since_and_that_is_said(self) -> None:
        cluster, by_hand = Cluster(), AclBinding("cluster", "kafka-cluster", "User:admin", "all", "allow")
        cluster.set(REFUSED)
        cluster.acls.create([by_hand])
        cluster.set(None)
        assert cluster.acls.there == [ALLOW_EVERYONE, by_hand]
        (warning,) = cluster.warnings
        assert "stays, although we added it: the cluster has got other ACLs since (1)" in warning
        assert "kafka-acls.sh --remove --allow-principal 'User:*' --operation All --cluster" in warning

    def test_no_cluster_is_opened_that_is_not_proven_to_be_open(self) -> None:
        cluster = Cluster(trouble="broker 1 has no allow.everyone.if.no.acl.found=true")
        assert isinstance(cluster.set(REFUSED), ClientQuotaUnavailableError)
        assert cluster.acls.there == []

    def test_denials_without_the_allow_count_as_none(self) -> None:
        cluster = Cluster(*denials("User:mallory"))
        assert cluster.bindings.describe(NEW_PIDS) == {}
        assert cluster.bindings.describe_all() == {NEW_PIDS: {REFUSE: REFUSED}}

    def test_what_kafka_refuses_in_part_is_taken_back(self) -> None:
        cluster = Cluster()
        cluster.acls.refused = denials("User:mallory")[1:]
        assert isinstance(cluster.set(REFUSED), ClientQuotaRefusedError)
        assert cluster.acls.there == []

    @pytest.mark.parametrize("user", ["*", "ANONYMOUS", None])
    def test_everybody_is_never_refused(self, user: str | None) -> None:
        cluster = Cluster()
        assert isinstance(cluster.set(REFUSED, QuotaEntity(user, is_hold=True)), ClientQuotaRefusedError)
        assert cluster.acls.there == []


class TestCoverage:
    def test_is_told_at_first_and_when_it_changes(self) -> None:
        facts, steady, notices = [OPEN], [0], list[Notice]()
        coverage = RefusalCoverage(lambda: facts[0], Clocks(lambda: START_MS, lambda: steady[0]), notices.append)
        assert [coverage.trouble(), coverage.trouble("User:mallory")] == ["", ""]
        facts[0] = RefusalFacts({1: BROKER}, (), (), has_hardcode=True, ordinary_on=None)
        assert coverage.trouble() == ""
        steady[0] += 30_000
        assert coverage.trouble("User:mallory").startswith("there is a topic 'hardcode'")
        steady[0] += 30_000
        coverage.trouble()
        first, second = (notice.why for notice in notices)
        assert first.startswith("new producer ids can be refused. A refusal does not end by itself")
        assert second.startswith("no new producer id is refused: there is a topic 'hardcode'")

    def test_says_what_a_dry_run_does_not_try_and_what_brokers_hide(self) -> None:
        settings = {1: BROKER | {SUPER_USERS_SETTING: None}}
        facts = RefusalFacts(settings, (), (), has_hardcode=False, ordinary_on=None)
        notices = list[Notice]()
        RefusalCoverage(lambda: facts, Clocks(lambda: START_MS, lambda: 0), notices.append).trouble()
        assert "which is tried with --apply only" in notices[0].why
        assert "brokers hide their super.users" in notices[0].why

    def test_is_per_principal_and_unlike_that_of_holds_never_from_memory(self) -> None:
        acl = AclBinding("topic", "orders", "User:mallory", "write", "allow")
        answers = [RefusalFacts({1: BROKER}, (), (acl,), has_hardcode=False, ordinary_on=frozenset({1}))]
        steady = [0]

        def look() -> RefusalFacts:
            if not answers:
                raise unavailable()
            return answers.pop()

        coverage = RefusalCoverage(look, Clocks(lambda: START_MS, lambda: steady[0]), lambda _: None)
        assert coverage.trouble("User:mallory").startswith("an ACL allows User:mallory to write to topic 'orders'")
        assert coverage.trouble("User:alice") == ""
        steady[0] += 30_000
        assert coverage.trouble("User:alice") == "what the brokers allow can't be read (the controller moves)"


def test_leases_of_both_kinds_may_be_open_after_the_lever_was_changed() -> None:
    world = World(lever="hold", narrow=False)
    world.decide(seconds=60)
    world.reconcile()
    world.options = World(lever="refuse", narrow=False).options
    world.restart()
    world.decide("User:alice", seconds=90)
    world.reconcile(1)
    assert world.broker.quotas[OF_ALICE] == {REFUSE: REFUSED}
    assert world.broker.quotas[NEW_PIDS].keys() == {HOLD}
    world.reconcile(90)
    assert world.broker.quotas == {}

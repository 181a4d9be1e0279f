from collections.abc import Callable, Collection, Sequence

import pytest

from broker.enforcement.dry_run import DiscardedRecords, DryRunHolds, DryRunQuotas, NoLock
from broker.enforcement.levers.registry import levers
from broker.enforcement.model import Clocks, EnforcementRecord, Target
from broker.enforcement.ports import EnforcerPorts
from broker.enforcement.reconcile import Enforcer
from broker.enforcement.store.lease_topic import leases_of_others
from broker.errors import BrokerError, BrokerUnreachableError, LeaseStoreError, TopicMissingError
from broker.kafka.quota_entity import QuotaEntity
from tables.errors import TableError, TableNotFoundError
from tests.kits.enforcer_kit import MALLORY, World

BOB = QuotaEntity("bob")


def alerts(world: World, others: Callable[[], Collection[Target] | None]) -> list[str]:
    """What a dry run on the world's broker warns of."""
    dry_run(world, others).reconcile()
    return [notice.why for notice in world.notices_of("alert")]


def dry_run(world: World, others: Callable[[], Collection[Target] | None] = lambda: None) -> Enforcer:
    """One that decides as the world's enforcer does, on the same brokers."""
    clocks = Clocks(lambda: world.now_ms, lambda: world.steady_ms)
    quotas, holds = DryRunQuotas(world.broker), DryRunHolds(world.holds)
    found = levers(quotas, holds, world.holds.look, world.use, lambda: world.use.own, clocks, world.notices.append)
    ports = EnforcerPorts(world.decisions, DiscardedRecords(), DiscardedRecords(), found, NoLock(), others)
    return Enforcer(ports, world.options, clocks, notify=world.notices.append, name="dry")


@pytest.fixture
def world() -> World:
    """Mallory has an open lease, bob its value without one."""
    world = World(narrow=False)
    world.enforce()
    world.broker.set(BOB, 0.01)
    return world


class TestAlerts:
    def test_spare_the_leases_of_the_enforcer_at_work(self, world: World) -> None:
        (why,) = alerts(world, lambda: leases_of_others(world.store.read, world.log.read))
        assert "--entity-name bob" in why

    def test_claim_nothing_if_leases_are_unknown(self, world: World) -> None:
        assert alerts(world, lambda: None) == []


class TestAHold:
    def test_is_set_moved_and_removed_in_its_head_only(self) -> None:
        world = World(with_authorizer=True)
        dry = dry_run(world)
        world.decide(seconds=60)
        dry.reconcile()
        world.pass_seconds(30)
        world.decide(seconds=60)
        dry.reconcile()
        world.pass_seconds(60)
        dry.reconcile()
        assert [notice.action for notice in world.notices if notice.lease] == ["throttled", "extended", "restored"]
        assert (world.holds.added, world.log.records, world.store.kept) == ([], [], {})


class TestLeasesOfOthers:
    @pytest.mark.parametrize("source", ["topic", "table"])
    def test_are_those_of_the_topic_and_of_the_table(self, world: World, source: str) -> None:
        kept, logged = world.store.read(), world.log.read()
        assert leases_of_others(lambda: kept if source == "topic" else [], lambda: logged if source == "table" else [])
        assert leases_of_others(list, list) == frozenset()

    def test_that_are_over_do_not_count(self, world: World) -> None:
        world.reconcile(60)
        assert leases_of_others(world.store.read, world.log.read) == frozenset()

    def test_that_are_over_in_one_of_both_do_not_count(self, world: World) -> None:
        before = [*world.log.records]
        world.reconcile(60)
        (*_, over) = world.log.leases()
        assert leases_of_others(lambda: before, lambda: [over]) == frozenset()
        assert leases_of_others(lambda: [over], lambda: before) == frozenset()

    def test_are_those_of_the_topic_alone_where_the_table_is_missing(self, world: World) -> None:
        assert leases_of_others(world.store.read, raising(TableNotFoundError("none"))) == frozenset(
            {Target("request_percentage", MALLORY)}
        )

    @pytest.mark.parametrize("error", [TopicMissingError("a"), BrokerUnreachableError("b"), LeaseStoreError("c")])
    def test_are_unknown_if_the_topic_cannot_be_read(self, world: World, error: BrokerError) -> None:
        assert leases_of_others(raising(error), world.log.read) is None

    def test_are_unknown_if_the_table_cannot_be_read(self, world: World) -> None:
        assert leases_of_others(world.store.read, raising(TableError("torn"))) is None


def raising(error: Exception) -> Callable[[], Sequence[EnforcementRecord]]:
    def read() -> Sequence[EnforcementRecord]:
        raise error

    return read

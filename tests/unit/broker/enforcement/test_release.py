import threading

import pytest

from broker.enforcement.model import CANARY
from broker.enforcement.release import Release
from broker.errors import EnforceError, LeaseStoreError
from broker.kafka.quota_entity import QuotaEntity
from tables.errors import TableError
from tests.kits.enforcer_kit import KEY, MALLORY, START_MS, MemoryLock, World, unavailable
from wire.holds import HoldBinding

BOB = QuotaEntity("bob")
APP = QuotaEntity("bob", "bob's app")
LEASE_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def world() -> World:
    """Mallory is on hold by a lease, on brokers with the authorizer."""
    world = World(with_authorizer=True)
    world.enforce(seconds=600)
    assert world.holds.held(world.now_ms) == {"mallory"}
    # The enforcer that took the lease was killed.
    world.restart()
    return world


def release(world: World, principal: str | None = "User:mallory", stop: threading.Event | None = None) -> None:
    switch = Release(world.enforcer, world.levers, world.store, world.log, world.clocks, world.notices.append)
    switch.run(principal, 3_600_000, stop or threading.Event())


def by_hand(user: str, after_ms: int = 60_000) -> HoldBinding:
    return HoldBinding(user, START_MS + after_ms)


@pytest.mark.parametrize("principal", ["User:mallory", None])
def test_it_ends_the_leases_that_nobody_else_ends_and_says_so(world: World, principal: str | None) -> None:
    release(world, principal)
    assert (world.holds.bindings, world.log.states()[-1]) == (set(), "restored")
    assert [notice.action for notice in world.notices][-1] == "restored"
    (told,) = world.notices_of("released")
    assert (told.principal, told.until_ms) == (principal or "everybody", START_MS + 3_600_000)


def test_it_leaves_the_leases_of_others_alone(world: World) -> None:
    release(world, "User:bob")
    assert world.holds.held(world.now_ms) == {"mallory"}


def test_no_new_lease_is_taken_until_its_pause_is_over(world: World) -> None:
    release(world)
    world.decide(seconds=7200)
    world.reconcile(1)
    assert world.holds.bindings == set()
    assert "--release" in world.notices_of("skipped")[0].why


def test_it_needs_no_table(world: World) -> None:
    world.log.broken = TableError("torn commit")
    release(world)
    assert world.holds.bindings == set()
    assert "the lease topic only" in world.notices_of("alert")[0].why


def test_an_order_that_can_t_be_given_is_an_error(world: World) -> None:
    world.store.broken = LeaseStoreError("no right")
    with pytest.raises(LeaseStoreError, match="no right"):
        release(world)
    assert world.notices_of("released") == []


def test_a_lease_that_is_open_at_the_stop_is_an_error_that_names_it(world: World) -> None:
    lock, stop = MemoryLock(), threading.Event()
    lock.held = False
    world.enforcer = world.another(lock)
    stop.set()
    with pytest.raises(EnforceError, match=r"not ended yet: hold on user 'mallory'\. The order holds"):
        release(world, stop=stop)


class Waiting(threading.Event):
    """A wait for it lets the time of the world pass."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def wait(self, timeout: float | None = None) -> bool:
        self._world.pass_seconds(1)
        return False


def test_a_lease_that_is_open_after_a_minute_is_an_error_that_names_it(world: World) -> None:
    world.holds.error = unavailable()
    with pytest.raises(EnforceError, match=r"not ended yet: hold on user 'mallory'"):
        release(world, stop=Waiting(world))
    assert 60_000 <= world.steady_ms <= 62_000


def test_a_lease_that_only_the_table_has_ends_with_its_previous_value() -> None:
    world = World(narrow=False)
    world.broker.set(MALLORY, 50.0)
    world.enforce(seconds=600)
    world.store.kept.clear()
    world.restart()
    release(world)
    assert world.broker.quotas == {MALLORY: {KEY: 50.0}}


class TestWhatIsLeftBehind:
    def test_of_a_lease_that_nobody_knows_any_more_is_removed(self, world: World) -> None:
        world.holds.bindings.add(HoldBinding("bob", START_MS + 60_000, LEASE_ID))
        release(world, "User:bob")
        assert world.holds.held(world.now_ms) == {"mallory"}

    def test_by_an_admin_s_hold_is_an_error_with_the_way_to_clear_it(self, world: World) -> None:
        world.holds.bindings.add(by_hand("mallory"))
        command = (
            f"kafka-acls.sh --remove --deny-principal User:mallory --operation Write "
            f"--topic pid-quota-hold:{START_MS + 60_000}"
        )
        with pytest.raises(EnforceError, match=r"no lease is open, but User:mallory is still throttled") as error:
            release(world)
        assert command in str(error.value)
        assert world.holds.bindings == {by_hand("mallory")}, "it is theirs"
        assert world.notices_of("restored")[-1].target is not None, "the lease, not the whole"

    @pytest.mark.parametrize("after_ms", [0, -1, 3_600_001], ids=["ends now", "is over", "brokers ignore it"])
    def test_by_a_hold_that_holds_nobody_is_none(self, world: World, after_ms: int) -> None:
        world.holds.bindings.add(by_hand("mallory", after_ms))
        release(world)

    @pytest.mark.parametrize("entity", [BOB, APP], ids=str)
    def test_by_a_quota_with_the_value_of_a_lease_is_an_error_with_the_way_to_clear_it(
        self, world: World, entity: QuotaEntity
    ) -> None:
        world.broker.set(entity, 0.01)
        client = """ --entity-type clients --entity-name 'bob'"'"'s app'""" if entity == APP else ""
        command = f"kafka-configs.sh --alter --entity-type users --entity-name bob{client} --delete-config {KEY}"
        with pytest.raises(EnforceError) as error:
            release(world, "User:bob")
        assert command in str(error.value)
        assert world.broker.quotas == {entity: {KEY: 0.01}}

    def test_of_somebody_else_is_none_of_a_principal_and_one_of_all(self, world: World) -> None:
        world.broker.set(BOB, 0.01)
        world.holds.bindings.add(by_hand("alice"))
        release(world)
        with pytest.raises(EnforceError, match="a principal is still throttled") as error:
            release(world, None)
        assert [name for name in ("User:alice", "--entity-name bob") if name not in str(error.value)] == []

    def test_by_a_quota_of_another_value_is_none(self, world: World) -> None:
        world.broker.set(MALLORY, 0.02)
        release(world)
        assert world.broker.quotas == {MALLORY: {KEY: 0.02}}

    def test_is_found_among_what_many_others_have(self, world: World) -> None:
        for number in range(30):
            world.broker.set(QuotaEntity(f"user-{number}"), 0.01)
        world.broker.set(BOB, 0.01)
        with pytest.raises(EnforceError, match="--entity-name bob --delete-config"):
            release(world, "User:bob")

    def test_that_can_t_be_removed_is_an_error_with_the_way_to_clear_it(self, world: World) -> None:
        world.holds.bindings.add(HoldBinding("bob", START_MS + 60_000, LEASE_ID))
        world.holds.error = unavailable()
        with pytest.raises(EnforceError, match=f"--topic pid-quota-hold:{START_MS + 60_000}:{LEASE_ID}"):
            release(world, "User:bob")

    def test_that_nobody_can_tell_is_an_error(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def not_now() -> list[HoldBinding]:
            raise unavailable()

        monkeypatch.setattr(world.holds, "all", not_now)
        with pytest.raises(EnforceError, match="User:bob may still be throttled"):
            release(world, "User:bob")

    def test_by_a_limit_on_an_address_is_one_of_all_alone(self, world: World) -> None:
        world.broker.set(QuotaEntity(ip="10.0.0.5"), 1.0, "connection_creation_rate")
        release(world)
        with pytest.raises(EnforceError, match=r"--entity-type ips --entity-name 10\.0\.0\.5"):
            release(world, None)


@pytest.mark.parametrize("principal", ["User:mallory", "User:bob", None])
@pytest.mark.parametrize("with_authorizer", [True, False])
def test_it_leaves_the_canary_of_a_running_enforcer_alone(principal: str | None, with_authorizer: bool) -> None:
    # given an enforcer that watches a canary, since somebody removed what its lease had set
    world = World(with_authorizer=with_authorizer)
    world.enforce(seconds=600)
    world.holds.bindings.clear()
    world.broker.quotas.clear()
    world.reconcile(5)
    running = world.enforcer

    # when another process releases somebody
    waiting = MemoryLock()
    waiting.held = False
    world.enforcer = world.another(waiting)
    release(world, principal)

    # then the first one takes nobody for a reconciler
    world.pass_seconds(2)
    running.reconcile()
    assert world.notices_of("alert") == []
    assert CANARY in {*(each.user for each in world.holds.bindings), *(each.user for each in world.broker.quotas)}

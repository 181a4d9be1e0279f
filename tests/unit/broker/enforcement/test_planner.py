import pytest

from broker.enforcement.model import LADDER, ReleaseOrder, Target
from broker.enforcement.planner import EnforcerOptions, LeverChoice
from broker.kafka.quota_entity import QuotaEntity
from tests.kits.enforcer_kit import MALLORY, World

HERE = "10.0.0.5"
HOLD = Target("hold", MALLORY)
RATE = Target("connection_creation_rate", QuotaEntity(ip=HERE))
SLOW = Target("request_percentage", MALLORY)


def chosen(world: World) -> set[Target]:
    world.use.by_address = {HERE: {"User:mallory"}}
    world.enforce(addresses={HERE: 9})
    return world.targets()


@pytest.mark.parametrize(
    ("lever", "with_authorizer", "targets"),
    [
        ("auto", True, {HOLD}),
        ("auto", False, {RATE}),
        ("hold", True, {HOLD}),
        ("hold", False, {RATE}),
        ("connection_creation_rate", True, {RATE}),
        ("connection_creation_rate", False, {RATE}),
        ("request_percentage", True, {SLOW}),
        ("request_percentage", False, {SLOW}),
    ],
)
def test_the_strongest_lever_that_is_allowed_and_works_is_used(
    lever: LeverChoice, with_authorizer: bool, targets: set[Target]
) -> None:
    assert chosen(World(lever=lever, with_authorizer=with_authorizer)) == targets


@pytest.mark.parametrize("lever", ["auto", *LADDER])
def test_no_lever_stronger_than_the_one_that_is_named_is_ever_used(lever: LeverChoice) -> None:
    world = World(lever=lever, with_authorizer=True)
    allowed = EnforcerOptions(lever=lever).ladder
    chosen(world)
    # Refused PIDs keep arriving, until there is no lever left to add.
    for number in range(1, 9):
        world.pass_seconds(11)
        world.enforce(refused_pids=100 * number, addresses={HERE: 9})
    assert {target.lever for target in world.targets()} == {*allowed}


def test_where_nothing_is_known_of_addresses_the_last_lever_remains_and_the_reasons_are_told() -> None:
    world = World()
    world.use.why_not = "the events can't be read"
    assert chosen(world) == {SLOW}
    (told,) = world.notices_of("throttled")
    assert "no hold: not every broker has the authorizer (not 1)" in told.why
    assert "no connection_creation_rate: the events can't be read" in told.why
    assert "request_percentage: no client ids are known" in told.why


@pytest.mark.parametrize(
    ("own", "seen"), [(HERE, HERE), ("fe80::1", "fe80:0:0:0:0:0:0:1%eth0"), ("::1", "0:0:0:0:0:0:0:1")]
)
def test_an_address_of_brokers_or_this_host_is_never_limited(own: str, seen: str) -> None:
    world = World()
    world.use.own = {own}
    world.use.by_address = {seen: {"User:mallory"}}

    world.enforce(addresses={seen: 9})

    assert world.targets() == {SLOW}


def test_an_address_gets_one_new_connection_a_second_until_somebody_else_uses_it_too() -> None:
    # given
    world = World(lever="connection_creation_rate")
    assert RATE in chosen(world)
    assert world.broker.quotas[RATE.entity] == {"connection_creation_rate": 1.0}

    # when
    world.use.by_address = {HERE: {"User:mallory", "User:bob"}}
    world.reconcile(10)

    # then
    assert RATE not in world.targets()
    assert RATE.entity not in world.broker.quotas
    assert world.notices_of("restored")[-1].why == "User:bob uses the address, too"


def test_where_no_lever_works_the_decision_is_skipped_with_every_reason() -> None:
    world = World(lever="request_percentage")
    # A reconciler removes what it does not know: mallory's quota, and the canary's.
    chosen(world)
    world.broker.quotas.clear()
    world.reconcile(5)
    world.broker.quotas.clear()
    world.reconcile(5)
    world.enforce("User:eve")
    assert world.targets() == set()
    assert "no request_percentage: something removes client quotas of users" in world.notices_of("skipped")[-1].why


def test_a_target_is_left_alone_for_an_hour_from_when_somebody_changed_it() -> None:
    # given a lease that is 2,000 s old
    world = World()
    world.enforce(seconds=2400)
    world.reconcile(2000)

    # when an admin sets another value
    world.broker.set(MALLORY, 50.0)
    world.reconcile(10)
    assert world.notices_of("relinquished")

    # then it stays for the hour
    for after_s in (2000, 1500):
        world.reconcile(after_s)
        world.enforce()
        assert world.broker.quotas == {MALLORY: {"request_percentage": 50.0}}
    world.reconcile(120)
    world.enforce()
    assert world.broker.quotas == {MALLORY: {"request_percentage": 0.01}}


def test_a_target_is_left_alone_although_only_this_enforcer_wrote_that_somebody_changed_it() -> None:
    # given
    world = World()
    world.enforce(seconds=2400)

    # when
    world.broker.set(MALLORY, 50.0)
    world.reconcile(10)
    world.enforce()

    # then
    assert world.broker.quotas == {MALLORY: {"request_percentage": 50.0}}


def test_an_order_that_only_the_table_has_keeps_leases_away() -> None:
    world = World()
    world.log.records.append(ReleaseOrder(world.now_ms, None, world.now_ms + 120_000))

    world.enforce()
    assert world.targets() == set()

    world.pass_seconds(121)
    world.enforce()
    assert world.targets() == {SLOW}


def test_addresses_of_only_half_of_the_refused_producer_ids_do_not_suffice() -> None:
    world = World()
    world.use.by_address = {HERE: {"User:mallory"}, "10.0.0.6": {"User:mallory", "User:bob"}}

    world.enforce(addresses={HERE: 5, "10.0.0.6": 5})

    assert world.targets() == {RATE, SLOW}

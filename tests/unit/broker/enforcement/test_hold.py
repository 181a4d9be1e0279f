from unittest.mock import PropertyMock, patch

import pytest

from broker.enforcement.levers.hold import Hold
from broker.enforcement.model import CANARY, Clocks, Target
from broker.enforcement.notices import Notice
from broker.errors import BrokerUnreachableError, RequestNotAllowedError, RequestRefusedError
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaEntity
from tests.kits.enforcer_kit import MALLORY, START_MS, Crash, MemoryUse, World, unavailable
from wire.holds import HOLD_AUTHORIZER, MAX_HOLD_MS, HoldBinding

HELD = Target("hold", MALLORY)
THROTTLED = {REQUEST_PERCENTAGE: 0.01}
STOCK = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def world() -> World:
    """Default options, on brokers that have the authorizer."""
    return World(with_authorizer=True)


def ends(*seconds: float) -> list[int]:
    return [START_MS + round(1000 * each) for each in seconds]


class TestAHold:
    def test_is_set_with_its_end_and_taken_away_when_it_is_due(self, world: World) -> None:
        world.enforce(seconds=60)
        assert (world.holds.ends(), world.broker.quotas) == (ends(60), {})
        world.reconcile(60)
        assert world.holds.bindings == set()
        assert world.log.states() == ["applying", "in_force", "restoring", "restored"]
        (notice,) = world.notices_of("throttled")
        assert "(hold on user 'mallory') until" in notice.line()

    def test_a_renewal_gives_it_a_later_end_without_a_pause(self, world: World) -> None:
        world.enforce(seconds=60)
        world.reconcile(50)
        world.enforce(seconds=60)
        assert world.holds.ends() == ends(110)
        assert [each.until_ms for each in world.holds.added] == ends(60, 110)
        assert [len(world.notices_of(action)) for action in ("throttled", "extended")] == [1, 1]
        world.reconcile(60)
        assert world.holds.bindings == set()

    def test_a_renewal_that_fails_is_tried_again(self, world: World) -> None:
        world.enforce(seconds=60)
        world.holds.error = unavailable()
        world.reconcile(30)
        world.enforce(seconds=60)
        assert world.holds.ends() == ends(60)
        world.holds.error = None
        world.reconcile(1)
        assert world.holds.ends() == ends(90)

    def test_never_reaches_as_far_as_brokers_ignore_it(self, world: World) -> None:
        world.enforce(seconds=100_000)
        assert world.holds.ends()[0] < START_MS + MAX_HOLD_MS

    def test_is_shortened_on_the_brokers_when_the_quota_is_raised(self, world: World) -> None:
        world.enforce(seconds=60)
        world.decide(seconds=5, reason="quota_changed")
        world.reconcile(1)
        assert world.holds.ends() == ends(5)
        world.reconcile(4)
        assert world.holds.bindings == set()

    def test_a_hold_with_an_end_that_moves_back_and_forth_stays_ours(self, world: World) -> None:
        # given a hold that a raised quota shortens, before the next throttle ends a little later
        world.enforce(seconds=600)
        world.decide(seconds=80, reason="quota_changed")
        world.reconcile(10)
        world.decide(seconds=90)
        world.reconcile(20)

        # then it has that end, whoever looks at it, and is gone after it
        assert world.holds.ends() == ends(100)
        world.restart()
        world.reconcile(50)
        assert (world.holds.ends(), world.notices_of("relinquished")) == (ends(100), [])
        world.reconcile(20)
        assert world.holds.bindings == set()

    def test_an_end_that_a_killed_enforcer_wrote_is_ours(self, world: World) -> None:
        world.enforce(seconds=60)
        (binding,) = world.holds.bindings
        world.holds.bindings.add(HoldBinding("mallory", binding.until_ms + 90_000, binding.lease_id))
        world.restart()
        world.reconcile(1)
        assert world.holds.ends() == ends(60)
        world.reconcile(60)
        assert world.holds.bindings == set()

    def test_does_not_move_for_news_about_others(self, world: World) -> None:
        world.enforce(seconds=600)
        for number in range(10):
            # The clocks are read one after the other.
            world.steady_ms += 7
            world.decide(f"User:other-{number}", seconds=1)
            world.reconcile(1)
        assert (world.notices_of("shortened"), world.holds.ends()) == ([], ends(600))

    def test_that_this_user_may_not_set_any_more_leaves_the_next_lever_and_one_alert(self, world: World) -> None:
        world.holds.error = RequestNotAllowedError("not authorised")
        world.decide(seconds=600)
        for _ in range(20):
            world.reconcile(0.5)
        assert world.broker.quotas == {MALLORY: THROTTLED}
        assert len(world.notices_of("alert")) == 1
        world.holds.error = None
        world.reconcile(60)
        assert world.holds.ends() == ends(600)


class TestSomebodyElse:
    def test_a_hold_that_another_removes_is_not_set_again(self, world: World) -> None:
        world.enforce(seconds=60)
        world.holds.bindings.clear()
        world.decide(seconds=90)
        world.reconcile(1)
        assert world.log.states()[-1] == "relinquished"
        world.decide(seconds=120)
        world.reconcile(1)
        assert (world.holds.held(world.now_ms) - {CANARY}, world.broker.quotas) == (set(), {})
        assert "someone else" in world.notices_of("skipped")[-1].why

    def test_is_noticed_within_seconds_without_a_renewal(self, world: World) -> None:
        world.enforce(seconds=600)
        world.holds.bindings.clear()
        world.reconcile(5)
        assert len(world.notices_of("relinquished")) == 1

    def test_a_hold_set_by_hand_stays(self, world: World) -> None:
        by_hand = HoldBinding("mallory", START_MS + 1_000_000)
        world.enforce(seconds=60)
        world.holds.bindings.add(by_hand)
        world.reconcile(60)
        assert world.holds.bindings == {by_hand}

    def test_a_longer_hold_by_hand_replaces_ours_until_it_is_over(self, world: World) -> None:
        world.holds.bindings.add(HoldBinding("mallory", START_MS + 60_000))
        world.enforce(seconds=60)
        assert "set by someone else" in world.notices_of("skipped")[0].why
        world.enforce(seconds=90)
        assert world.holds.ends() == ends(60, 90)

    def test_an_admin_s_hold_without_a_lease_is_reported_with_the_way_to_clear_it(self, world: World) -> None:
        by_hand = HoldBinding("mallory", START_MS + 60_000)
        world.holds.bindings.add(by_hand)
        world.reconcile()
        (alert,) = world.notices_of("alert")
        command = f"kafka-acls.sh --remove --deny-principal User:mallory --operation Write --topic {by_hand.name}"
        assert command in alert.why
        assert world.holds.bindings == {by_hand}


class TestHoldsOfOursWithoutALease:
    def test_are_removed_at_the_start(self, world: World) -> None:
        world.holds.bindings.add(HoldBinding("mallory", START_MS + 60_000, "ab12"))
        world.reconcile()
        assert (world.holds.bindings, world.notices_of("alert")) == (set(), [])

    def test_that_can_t_be_removed_are_tried_again_without_an_alert(self, world: World) -> None:
        world.holds.bindings.add(HoldBinding("mallory", START_MS + 600_000, "ab12"))
        world.holds.error = unavailable()
        world.reconcile()
        world.holds.error = None
        world.reconcile(60)
        assert (world.holds.bindings, world.notices_of("alert")) == (set(), [])

    def test_are_removed_at_the_stop(self, world: World) -> None:
        world.reconcile()
        world.holds.bindings.add(HoldBinding("mallory", START_MS + 60_000, "ab12"))
        assert world.enforcer.end_all("stopped") == []
        assert world.holds.bindings == set()


class TestAReconciler:
    """Somebody's program that removes whatever it does not know, as Strimzi's User Operator does."""

    @staticmethod
    def sweep_holds(world: World) -> None:
        world.holds.bindings.clear()

    @staticmethod
    def sweep_quotas(world: World) -> None:
        for entity in [each for each in world.broker.quotas if each.user is not None]:
            del world.broker.quotas[entity]

    def test_of_acls_is_reported_once_and_the_next_lever_is_used(self, world: World) -> None:
        world.enforce(seconds=600)
        for _ in range(20):
            self.sweep_holds(world)
            world.reconcile(2)
        assert world.broker.quotas == {MALLORY: THROTTLED}
        assert [notice.why for notice in world.notices_of("alert") if "KafkaUser" in notice.why] != []
        assert len(world.notices_of("alert")) == 1
        assert "no hold: something removes ACLs" in world.notices_of("throttled")[-1].why

    def test_of_quotas_leaves_addresses_as_a_lever(self) -> None:
        world = World()
        world.use.by_address = {"10.0.0.5": {"User:mallory"}}
        world.enforce(seconds=600, addresses={"10.0.0.5": 9, "other": 9})
        for _ in range(20):
            self.sweep_quotas(world)
            world.reconcile(2)
        assert world.broker.quotas == {QuotaEntity(ip="10.0.0.5"): {"connection_creation_rate": 1.0}}
        assert len(world.notices_of("alert")) == 1
        world.reconcile(600)
        assert world.broker.quotas == {}

    def test_is_told_from_an_admin_who_leaves_a_user_alone_that_does_not_exist(self, world: World) -> None:
        world.enforce(seconds=1200)
        world.holds.bindings.clear()
        for _ in range(30):
            world.reconcile(2)
        assert {each.user for each in world.holds.bindings} == {CANARY}
        world.reconcile(600)
        assert (world.holds.bindings, world.broker.quotas, world.notices_of("alert")) == (set(), {}, [])

    def test_of_quotas_is_told_from_an_admin_too(self) -> None:
        world = World()
        world.enforce(seconds=1200)
        world.broker.quotas.clear()
        for _ in range(80):
            world.reconcile(2)
        assert ({*world.broker.quotas}, world.notices_of("alert")) == ({QuotaEntity(CANARY)}, [])

    def test_is_believed_for_an_hour(self, world: World) -> None:
        world.enforce(seconds=60)
        for _ in range(2):
            self.sweep_holds(world)
            world.reconcile(5)
        world.reconcile(3500)
        world.enforce("User:eve")
        assert world.holds.bindings == set()
        world.reconcile(100)
        world.enforce("User:eve")
        assert world.holds.held(world.now_ms) == {"eve"}

    @pytest.mark.parametrize("kill", [False, True])
    def test_a_canary_is_left_behind_by_no_stop_and_no_kill(self, world: World, kill: bool) -> None:
        world.enforce(seconds=60)
        world.holds.bindings.clear()
        world.reconcile(5)
        assert {each.user for each in world.holds.bindings} == {CANARY}
        if kill:
            world.restart()
            world.reconcile(1)
        else:
            world.enforcer.end_all("stopped")
        assert world.holds.bindings == set()


class TestBrokersWithoutTheClass:
    def test_a_client_quota_is_set_instead_and_the_reason_is_told(self) -> None:
        world = World()
        world.holds.authorizers = {1: HOLD_AUTHORIZER, 2: STOCK}
        world.enforce(seconds=60)
        assert (world.broker.quotas, world.holds.bindings) == ({MALLORY: THROTTLED}, set())
        assert "no hold: not every broker has the authorizer (not 2)" in world.notices_of("throttled")[0].why

    def test_a_hold_follows_as_soon_as_all_have_it(self) -> None:
        world = World()
        world.enforce(seconds=60)
        world.holds.authorizers = {1: HOLD_AUTHORIZER}
        world.reconcile(30)
        assert (world.broker.quotas, world.holds.ends()) == ({MALLORY: THROTTLED}, ends(60))
        world.reconcile(30)
        assert (world.broker.quotas, world.holds.bindings) == ({}, set())

    def test_each_broker_is_reported_once_and_again_when_it_changes(self) -> None:
        found = {1: HOLD_AUTHORIZER, 2: STOCK, 3: ""}
        steady = [0]
        notices = list[Notice]()
        hold = Hold(World().holds, lambda: found, Clocks(lambda: START_MS, lambda: steady[0]), notices.append)
        assert hold.unavailable_reason() == "not every broker has the authorizer (not 2, 3)"
        assert [notice.why.split(":")[0] for notice in notices] == [
            f"broker 1 has {HOLD_AUTHORIZER}",
            f"broker 2 has {STOCK}",
            "broker 3 has no authorizer",
        ]
        found |= {2: HOLD_AUTHORIZER, 3: HOLD_AUTHORIZER}
        assert hold.unavailable_reason() != ""
        steady[0] += 30_000
        assert (hold.unavailable_reason(), len(notices)) == ("", 5)

    def test_an_unavailable_answer_counts_as_no_at_first_and_later_as_the_last_answer(self) -> None:
        answers: list[dict[int, str]] = []
        steady = [0]

        def ask() -> dict[int, str]:
            if not answers:
                msg = "no right"
                raise BrokerUnreachableError(msg)
            return answers.pop()

        hold = Hold(World().holds, ask, Clocks(lambda: START_MS, lambda: steady[0]), lambda _: None)
        assert hold.unavailable_reason() == "the brokers' authorizers can't be read (no right)"
        answers.append({1: HOLD_AUTHORIZER})
        for _ in range(2):
            steady[0] += 30_000
            assert hold.unavailable_reason() == ""


class TestAddresses:
    @pytest.fixture
    def world(self) -> World:
        """Default options, on brokers without the authorizer; mallory and alice share an address."""
        world = World()
        world.use.by_address = {"10.0.0.5": {"User:mallory"}, "10.0.0.6": {"User:mallory", "User:alice"}}
        return world

    def test_that_only_the_guilty_used_get_a_limit_beside_the_slower_lever(self, world: World) -> None:
        world.enforce(addresses={"10.0.0.5": 9, "10.0.0.6": 90, "other": 3})
        assert world.broker.quotas == {
            QuotaEntity(ip="10.0.0.5"): {"connection_creation_rate": 1.0},
            MALLORY: THROTTLED,
        }
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_that_all_refused_pids_come_from_spare_the_known_producers_of_the_guilty(self, world: World) -> None:
        limited = {QuotaEntity(ip="10.0.0.5"): {"connection_creation_rate": 1.0}}
        world.enforce(addresses={"10.0.0.5": 95, "10.0.0.6": 5})
        assert world.broker.quotas == limited
        assert "no request_percentage: known producers of mallory keep working" in world.notices_of("throttled")[0].why
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_get_a_limit_beside_the_guilty_client_ids(self, world: World) -> None:
        world.enforce(addresses={"10.0.0.5": 20}, client_ids={"orders-importer": 20})
        assert world.broker.quotas == {
            QuotaEntity(ip="10.0.0.5"): {"connection_creation_rate": 1.0},
            QuotaEntity("mallory", "orders-importer"): THROTTLED,
        }

    def test_that_are_not_enough_slow_the_user_as_well(self, world: World) -> None:
        for refused in (20, 30, 40):
            world.enforce(addresses={"10.0.0.5": refused}, refused_pids=refused)
            world.reconcile(55)
        assert world.broker.quotas == {
            QuotaEntity(ip="10.0.0.5"): {"connection_creation_rate": 1.0},
            MALLORY: THROTTLED,
        }

    def test_of_brokers_and_of_the_enforcer_are_never_limited(self, world: World) -> None:
        world.use.own = {"10.0.0.5"}
        world.enforce(addresses={"10.0.0.5": 9})
        assert world.broker.quotas == {MALLORY: THROTTLED}
        assert "no connection_creation_rate: no address is used by it alone" in world.notices_of("throttled")[0].why

    def test_that_nobody_is_known_to_use_are_never_limited(self, world: World) -> None:
        world.enforce(addresses={"10.0.0.7": 9})
        assert world.broker.quotas == {MALLORY: THROTTLED}

    def test_are_never_limited_while_those_of_the_brokers_can_t_be_read(self, world: World) -> None:
        world.decide(addresses={"10.0.0.5": 9})
        with patch.object(MemoryUse, "own", PropertyMock(side_effect=unavailable()), create=True):
            world.reconcile()
        assert world.broker.quotas == {MALLORY: THROTTLED}

    def test_get_the_tighter_default_back_that_a_limit_would_loosen(self, world: World) -> None:
        world.enforce(seconds=600, addresses={"10.0.0.5": 9})
        world.broker.wider = 0.5
        world.reconcile(5)
        assert world.broker.quotas == {}

    def test_are_left_alone_while_it_is_not_known_who_uses_them(self, world: World) -> None:
        world.use.why_not = "the events can't be read"
        world.enforce(addresses={"10.0.0.5": 9})
        assert world.broker.quotas == {MALLORY: THROTTLED}
        assert "the events can't be read" in world.notices_of("throttled")[0].why

    def test_that_somebody_else_begins_to_use_are_free_again_within_seconds(self, world: World) -> None:
        world.enforce(seconds=600, addresses={"10.0.0.5": 9})
        world.use.by_address["10.0.0.5"].add("User:alice")
        world.reconcile(5)
        assert world.broker.quotas == {MALLORY: THROTTLED}
        assert [notice.why for notice in world.notices_of("restored")] == ["User:alice uses the address, too"]
        world.reconcile(5)
        assert world.broker.quotas == {MALLORY: THROTTLED}

    def test_are_not_needed_under_a_hold(self) -> None:
        world = World(with_authorizer=True)
        world.use.by_address = {"10.0.0.5": {"User:mallory"}}
        world.enforce(addresses={"10.0.0.5": 9})
        assert (world.holds.ends(), world.broker.quotas) == (ends(60), {})

    def test_are_never_limited_beyond_the_most_leases(self) -> None:
        world = World(max_entities=2)
        world.use.by_address = {f"10.0.0.{number}": {"User:mallory"} for number in range(5)}
        world.enforce(addresses=dict.fromkeys(world.use.by_address, 1))
        assert len(world.broker.quotas) == 2
        assert "--max-entities" in world.notices_of("skipped")[0].why


class TestPidsThatGoOnArriving:
    def test_under_a_hold_bring_the_next_lever_with_the_reason(self, world: World) -> None:
        """A hoarder: ids that were handed out before the hold."""
        world.enforce(seconds=60, refused_pids=10)
        for refused in (3000, 6000):
            assert world.broker.quotas == {}
            world.reconcile(55)
            world.enforce(seconds=60, refused_pids=refused)
        assert (world.holds.ends(), world.broker.quotas) == (ends(170), {MALLORY: THROTTLED})
        why = world.notices_of("throttled")[-1].why
        assert "refused PIDs keep arriving (3000, then 6000)" in why
        world.reconcile(60)
        assert (world.holds.bindings, world.broker.quotas) == (set(), {})

    def test_bring_one_lever_after_the_other(self, world: World) -> None:
        world.use.by_address = {"10.0.0.5": {"User:mallory"}}
        for number in range(4):
            world.enforce(seconds=60, refused_pids=10 + 1000 * number, addresses={"10.0.0.5": 9})
            world.reconcile(55)
        assert {target.lever for target in world.targets()} == {
            "hold",
            "connection_creation_rate",
            "request_percentage",
        }

    def test_of_producers_that_were_refused_and_go_on_bring_nothing_more(self, world: World) -> None:
        world.enforce(seconds=60, refused_pids=10)
        for _ in range(5):
            world.reconcile(55)
            world.enforce(seconds=60, refused_pids=40)
        assert world.broker.quotas == {}

    def test_of_who_waited_and_is_refused_when_the_hold_is_over_bring_nothing_more(self, world: World) -> None:
        for number in range(5):
            world.decide(seconds=60, refused_pids=10 + 100 * number)
            world.reconcile(1)
            assert len(world.holds.ends()) == 1
            world.reconcile(62)
            assert world.holds.bindings == set()
        assert world.broker.altered == []


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "unknown", "User:etl", "Service:etl", "Group:x", "User:*"])
def test_nothing_is_set_on_those_who_are_never_touched_or_share_a_name(principal: str) -> None:
    world = World(with_authorizer=True, never=frozenset({"User:etl"}))
    world.use.by_address = {"10.0.0.5": {principal}}
    world.enforce(principal, addresses={"10.0.0.5": 9})
    assert (world.holds.bindings, world.broker.quotas) == (set(), {})


def test_a_hold_that_kafka_refuses_fails(world: World) -> None:
    world.holds.error = RequestRefusedError("no")
    world.enforce()
    assert world.log.states() == ["applying", "failed"]


def test_it_ends_with_the_enforcer_that_is_stopped(world: World) -> None:
    world.enforce(seconds=60)
    assert world.enforcer.end_all("stopped") == []
    assert world.holds.bindings == set()


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_point_leaves_no_hold_behind_and_forgets_none(after: bool) -> None:
    number = 0
    while True:
        number += 1
        world = World(with_authorizer=True)
        world.faults.crash_at, world.faults.after = number, after
        try:
            world.enforce(seconds=60)
            world.decide(seconds=20, reason="quota_changed")
            world.reconcile(10)
            world.decide(seconds=90)
            world.reconcile(5)
            world.reconcile(90)
        except Crash:
            world.restart()
            world.reconcile(1)
            world.reconcile(300)
        assert world.holds.bindings == set()
        if world.faults.calls < number:
            return

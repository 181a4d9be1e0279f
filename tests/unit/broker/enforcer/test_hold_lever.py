"""The enforcer with the lever `hold`, against twins in memory."""

from typing import Any

import pytest

from broker.cluster.acl_bindings import AclBindings
from broker.cluster.client_quotas import REQUEST_PERCENTAGE, QuotaChange
from broker.cluster.former_refusals import FormerRefusals
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.hold_coverage import HoldCoverage
from broker.enforcer.levers import Levers
from broker.enforcer.ports import Clocks
from broker.errors import ClientQuotaUnavailableError
from broker.leases.lease_rules import Action
from tests.unit.broker.enforcer.enforcer_kit import (
    KEY,
    MALLORY,
    START_MS,
    Crash,
    Faults,
    MemoryBroker,
    World,
    unavailable,
)
from wire.holds import HOLD_AUTHORIZER, LONGEST_HOLD_MS

HELD = QuotaEntity("mallory", is_hold=True)
THROTTLED = {REQUEST_PERCENTAGE: 0.01}


@pytest.fixture
def world() -> World:
    return World(lever="hold", narrow=False)


def until(seconds: float) -> dict[str, float]:
    return {HOLD: START_MS + 1000.0 * seconds}


class TestAHold:
    def test_is_set_with_its_end_and_taken_away_when_it_is_due(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        assert world.broker.quotas == {HELD: until(60)}
        world.reconcile(60)
        assert world.broker.quotas == {}
        assert world.log.states(HELD) == ["applying", "in_force", "restoring", "restored"]
        (notice,) = world.said("throttled")
        assert "(new producer ids of user 'mallory': hold until" in notice.line()

    def test_a_renewal_gives_it_a_later_end_without_a_pause(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        world.reconcile(50)
        world.decide(seconds=60)
        world.reconcile()
        assert world.broker.quotas == {HELD: until(110)}
        assert world.broker.writes(HELD) == [until(60)[HOLD], until(110)[HOLD]]
        assert [len(world.said(kind)) for kind in ("throttled", "extended")] == [1, 1]
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_a_renewal_that_fails_is_tried_again(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        world.broker.errors[HELD] = unavailable()
        world.reconcile(30)
        world.decide(seconds=60)
        world.reconcile()
        assert world.broker.quotas == {HELD: until(60)}
        world.broker.errors.clear()
        world.reconcile(1)
        assert world.broker.quotas == {HELD: until(90)}

    def test_never_reaches_as_far_as_brokers_ignore_it(self, world: World) -> None:
        world.decide(seconds=100_000)
        world.reconcile()
        assert world.broker.quotas[HELD][HOLD] < START_MS + LONGEST_HOLD_MS

    def test_who_removes_it_is_left_alone(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        world.broker.set(HELD, None, HOLD)
        world.decide(seconds=90)
        world.reconcile(1)
        assert world.log.states(HELD)[-1] == "relinquished"
        world.decide(seconds=120)
        world.reconcile(1)
        assert world.broker.quotas == {}
        assert "someone else" in world.said("skipped")[-1].why

    def test_who_sets_a_later_end_keeps_it(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        world.broker.set(HELD, START_MS + 1e6, HOLD)
        world.reconcile(60)
        assert world.broker.quotas == {HELD: until(1000)}
        assert world.log.states(HELD)[-1] == "relinquished"

    def test_somebody_else_s_hold_stands_and_is_followed_by_ours(self, world: World) -> None:
        world.broker.set(HELD, START_MS + 10_000.0, HOLD)
        world.decide(seconds=60)
        world.reconcile()
        assert "not by us" in world.said("skipped")[0].why
        world.reconcile(10)
        assert world.broker.quotas == {HELD: until(60)}

    def test_is_shortened_when_the_quota_is_raised(self, world: World) -> None:
        world.decide(seconds=60)
        world.reconcile()
        world.decide(seconds=5, reason="quota_changed")
        world.reconcile(1)
        world.reconcile(4)
        assert world.broker.quotas == {}


class TestBrokersThatDoNotKnowHolds:
    def test_a_client_quota_is_set_instead_and_why_is_said(self, world: World) -> None:
        world.coverage.why_not = "not every broker knows holds (not 2)"
        world.decide(seconds=60)
        world.reconcile()
        assert world.broker.quotas == {MALLORY: THROTTLED}
        assert (
            "a client quota instead of a hold: not every broker knows holds (not 2)" in world.said("throttled")[0].why
        )

    def test_a_hold_follows_as_soon_as_all_know_them(self, world: World) -> None:
        world.coverage.why_not = "not every broker knows holds (not 2)"
        world.decide(seconds=60)
        world.reconcile()
        world.coverage.why_not = ""
        world.reconcile(1)
        assert world.broker.quotas == {MALLORY: THROTTLED, HELD: until(60)}
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_each_broker_is_told_once_and_again_when_it_changes(self) -> None:
        found = {1: HOLD_AUTHORIZER, 2: "org.apache.kafka.metadata.authorizer.StandardAuthorizer", 3: ""}
        steady = [0]
        notices: list[Any] = []
        coverage = HoldCoverage(lambda: found, Clocks(lambda: START_MS, lambda: steady[0]), notices.append)
        assert coverage.trouble() == "not every broker knows holds (not 2, 3)"
        assert [notice.why.split(":")[0] for notice in notices] == [
            f"broker 1 has {HOLD_AUTHORIZER}",
            "broker 2 has org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "broker 3 has no authorizer",
        ]
        found |= {2: HOLD_AUTHORIZER, 3: HOLD_AUTHORIZER}
        assert coverage.trouble() != ""
        steady[0] += 30_000
        assert (coverage.trouble(), len(notices)) == ("", 5)

    def test_what_can_t_be_asked_is_taken_for_no_and_later_for_what_it_was(self) -> None:
        answers: list[dict[int, str]] = []
        steady = [0]

        def ask() -> dict[int, str]:
            if not answers:
                msg = "no right"
                raise ClientQuotaUnavailableError(msg)
            return answers.pop()

        coverage = HoldCoverage(ask, Clocks(lambda: START_MS, lambda: steady[0]), lambda _: None)
        assert coverage.trouble() == "which brokers know holds can't be read (no right)"
        answers.append({1: HOLD_AUTHORIZER})
        for _ in range(2):
            steady[0] += 30_000
            assert coverage.trouble() == ""


class TestARefusalThatGoesOn:
    def test_more_refused_pids_under_a_hold_bring_the_client_quota_and_say_why(self, world: World) -> None:
        """A hoarder: ids that were handed out before the hold."""
        world.decide(seconds=60, refused_pids=10)
        world.reconcile()
        for refused in (3000, 6000):
            assert world.broker.quotas.keys() == {HELD}
            world.reconcile(55)
            world.decide(seconds=60, refused_pids=refused)
            world.reconcile()
        assert world.broker.quotas == {HELD: until(170), MALLORY: THROTTLED}
        (why,) = [
            notice.why for notice in world.said("throttled") if notice.entity == MALLORY or "arriving" in notice.why
        ]
        assert "refused PIDs go on arriving under a hold (3000, then 6000)" in why
        assert "transactional ids" in why
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_producers_that_were_refused_and_go_on_bring_nothing_more(self, world: World) -> None:
        world.decide(seconds=60, refused_pids=10)
        world.reconcile()
        for _ in range(5):
            world.reconcile(55)
            world.decide(seconds=60, refused_pids=40)
            world.reconcile()
        assert world.broker.quotas.keys() == {HELD}

    def test_who_waited_and_is_refused_when_the_hold_is_over_brings_nothing_more(self, world: World) -> None:
        for number in range(5):
            world.decide(seconds=60, refused_pids=10 + 100 * number)
            world.reconcile(1)
            assert world.broker.quotas.keys() == {HELD}
            world.reconcile(62)
            assert world.broker.quotas == {}

    def test_counts_of_two_brokers_are_not_compared(self, world: World) -> None:
        world.decide(seconds=60, refused_pids=10, broker_id=1)
        world.reconcile()
        world.reconcile(30)
        world.decide(seconds=60, refused_pids=5, broker_id=1)
        world.decide(seconds=60, refused_pids=500, broker_id=2)
        world.reconcile(1)
        assert world.broker.quotas.keys() == {HELD}


class TestHoldsWithoutALease:
    def test_are_said_with_the_way_to_clear_them_and_left_alone(self, world: World) -> None:
        world.broker.set(HELD, START_MS + 60_000.0, HOLD)
        world.reconcile()
        (alert,) = world.said("alert")
        end = START_MS + 60_000
        assert (
            f"kafka-acls.sh --remove --deny-principal User:mallory --operation Write --topic pid-quota-hold:{end}"
            in (alert.why)
        )
        assert world.broker.quotas == {HELD: until(60)}

    def test_are_removed_when_they_are_over(self, world: World) -> None:
        world.broker.set(HELD, START_MS - 1.0, HOLD)
        world.reconcile()
        assert (world.broker.quotas, world.said("alert")) == ({}, [])


def test_a_store_of_all_asks_each_for_its_own() -> None:
    quotas, holds = MemoryBroker(Faults()), MemoryBroker(Faults())
    quotas.set(MALLORY, 5.0)
    holds.set(HELD, 1.0, HOLD)
    refusals = FormerRefusals(AclBindings({}), lambda _: None)
    levers, without = (Levers(quotas, holds, refusals, with_holds=each) for each in (True, False))
    assert levers.describe_all() == {MALLORY: {REQUEST_PERCENTAGE: 5.0}, HELD: {HOLD: 1.0}}
    assert without.describe_all() == {MALLORY: {REQUEST_PERCENTAGE: 5.0}}
    assert (without.describe(HELD), without.describe(MALLORY)) == ({HOLD: 1.0}, {REQUEST_PERCENTAGE: 5.0})
    changes = [QuotaChange(HELD, HOLD, None), QuotaChange(MALLORY, KEY, None)]
    assert levers.alter(changes) == {HELD: None, MALLORY: None}
    assert [store.altered for store in (holds, quotas)] == [[change] for change in changes]


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "unknown", "User:etl", "Service:etl", "User:*"])
def test_no_hold_is_set_on_those_who_are_never_touched(principal: str) -> None:
    world = World(lever="hold", never=frozenset({"User:etl"}))
    world.decide(principal)
    world.reconcile()
    assert [entity for entity in world.broker.quotas if entity.is_hold] == []


def test_the_kill_switch_ends_it(world: World) -> None:
    world.decide(seconds=60)
    world.reconcile()
    world.store.append([Action(world.now_ms, "hold", None, world.now_ms + 60_000, "released by order")])
    world.reconcile(1)
    assert world.broker.quotas == {}


def test_it_ends_with_the_enforcer_that_is_stopped(world: World) -> None:
    world.decide(seconds=60)
    world.reconcile()
    assert world.enforcer.end_all("stopped") == []
    assert world.broker.quotas == {}


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_point_leaves_no_hold_behind_and_forgets_none(after: bool) -> None:
    number = 0
    while True:
        number += 1
        world = World(lever="hold")
        world.faults.crash_at, world.faults.after = number, after
        try:
            world.decide(seconds=60)
            world.reconcile()
            world.decide(seconds=90)
            world.reconcile(30)
            world.reconcile(90)
        except Crash:
            world.restart()
            world.reconcile(1)
            world.reconcile(300)
        assert world.broker.quotas == {}
        if world.faults.calls < number:
            return

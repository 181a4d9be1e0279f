"""What the levers `hold` and `refuse` have in common, against twins in memory."""

import pytest

from broker.leases.lease_rules import Action
from broker.leases.lease_targets import Lever
from tests.unit.broker.enforcer.enforcer_kit import Crash, World

pytestmark = pytest.mark.parametrize("lever", ["hold", "refuse"])


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "unknown", "User:etl", "Service:etl", "User:*"])
def test_neither_is_set_on_those_who_are_never_touched(lever: Lever, principal: str) -> None:
    world = World(lever=lever, never=frozenset({"User:etl"}))
    world.decide(principal)
    world.reconcile()
    assert [entity for entity in world.broker.quotas if entity.is_hold] == []


def test_the_kill_switch_ends_it(lever: Lever) -> None:
    world = World(lever=lever, narrow=False)
    world.decide(seconds=60)
    world.reconcile()
    world.store.append([Action(world.now_ms, "hold", None, world.now_ms + 60_000, "released by order")])
    world.reconcile(1)
    assert world.broker.quotas == {}


def test_it_ends_with_the_enforcer_that_is_stopped(lever: Lever) -> None:
    world = World(lever=lever, narrow=False)
    world.decide(seconds=60)
    world.reconcile()
    assert world.enforcer.end_all("stopped") == []
    assert world.broker.quotas == {}


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_point_leaves_none_behind_and_forgets_none(lever: Lever, after: bool) -> None:
    number = 0
    while True:
        number += 1
        world = World(lever=lever)
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

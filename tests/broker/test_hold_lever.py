import time
from pathlib import Path

import pytest

from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaEntity
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import new_topic, transactional_producer, wait_until
from tests.kits.enforce_kit import Steady, actions, decide, enforcing, killed_after, quotas_of, release
from tests.kits.hold_kit import (
    LOADING,
    Asker,
    Waiting,
    binding,
    is_at_end,
    send_by_confluent_kafka,
    unbind,
)


@pytest.fixture(scope="module")
def broker(held_broker: LocalBroker) -> LocalBroker:
    return held_broker


@pytest.mark.slow
def test_a_dry_run_says_what_each_broker_has_and_changes_nothing(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    decide(tables, "User:mallory")
    with enforcing(broker, tables, lock=False) as enforcer:
        enforcer.wait_for("lever", "broker 1 has pidquota.HoldAuthorizer: a hold delays new producer ids there")
        enforcer.wait_for("throttled")
    assert (holds.all(), actions(tables)) == ([], [])


def test_new_producers_of_mallory_wait_until_the_lease_ends_and_known_ones_go_on(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    topic = new_topic(broker, "orders")
    known = Steady(broker.client_config("mallory"), topic, "known")
    known.send()
    with enforcing(broker, tables, "--apply") as enforcer:
        until = decide(tables, "User:mallory", seconds=8)
        enforcer.wait_for("throttled")
        waiting = Waiting(send_by_confluent_kafka, broker.client_config("mallory"), topic, "waited")
        known.send()
        assert (waiting.ended_at, known.throttles_s) == (None, [])
        assert is_at_end(waiting.end(), until.timestamp())
        enforcer.wait_for("restored")
    assert actions(tables) == ["applying", "in_force", "restoring", "restored"]
    assert quotas_of(broker) == {}


def test_a_hold_ends_in_time_although_its_enforcer_was_killed_and_the_next_start_clears_it(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    with Asker(broker) as mallory:
        with killed_after(broker, tables, "--apply") as killed:
            until = decide(tables, "User:mallory", seconds=8)
            killed.wait_for("throttled")
        wait_until(lambda: mallory.error() == LOADING, "she is on hold")
        wait_until(lambda: mallory.error() == 0, "she is not")
        assert is_at_end(time.time(), until.timestamp())
    assert holds.of_user("mallory") != []
    with enforcing(broker, tables, "--apply") as enforcer:
        enforcer.wait_for("restored")


@pytest.mark.slow
def test_the_successor_of_a_killed_enforcer_keeps_the_hold_and_ends_it(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    with killed_after(broker, tables, "--apply") as killed:
        decide(tables, "User:mallory", seconds=300)
        killed.wait_for("throttled")
    with enforcing(broker, tables, "--apply") as enforcer, Asker(broker) as mallory:
        enforcer.wait_for("lock", "open leases found: 1")
        time.sleep(1)
        assert mallory.error() == LOADING
    assert actions(tables) == ["applying", "in_force", "restoring", "restored"]


@pytest.mark.slow
def test_the_kill_switch_ends_a_hold(broker: LocalBroker, tables: Path, holds: HoldBindings) -> None:
    with enforcing(broker, tables, "--apply") as enforcer, Asker(broker) as mallory:
        decide(tables, "User:mallory", seconds=300)
        enforcer.wait_for("throttled")
        wait_until(lambda: mallory.error() == LOADING, "she is on hold")
        release(broker, tables, "--release", "mallory")
        wait_until(lambda: mallory.error() == 0, "she is released")


def test_an_admin_who_removes_the_binding_ends_the_lease(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    with enforcing(broker, tables, "--apply") as enforcer, Asker(broker) as mallory:
        decide(tables, "User:mallory", seconds=300)
        enforcer.wait_for("throttled")
        (held,) = holds.of_user("mallory")
        unbind(broker, binding(held.name))
        # It is noticed without a new decision, and one that comes then changes nothing.
        enforcer.wait_for("relinquished", "someone else removed the hold")
        decide(tables, "User:mallory", seconds=400)
        enforcer.wait_for("skipped", "someone else changed the hold on user 'mallory'")
        assert (mallory.error(), holds.of_user("mallory")) == (0, [])


@pytest.mark.slow
def test_hoarded_ids_and_new_transactional_ids_pass_a_hold_and_bring_the_client_quota(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    topic = new_topic(broker, "orders")
    hoard = [Steady(broker.client_config("mallory"), topic, f"hoarded-{number}") for number in range(5)]
    for each in hoard:
        each.send()
    with enforcing(broker, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", refused_pids=10)
        enforcer.wait_for("throttled", "its known PIDs keep working")
        for number, each in enumerate(hoard):
            each.send()
            transactional_producer(broker.client_config("mallory"), f"new-each-time-{number}")
        assert [each.throttles_s for each in hoard] == [[]] * len(hoard)
        # What was handed out before the hold gets ten seconds to arrive.
        time.sleep(11)
        decide(tables, "User:mallory", refused_pids=3000)
        enforcer.wait_for("extended")
        decide(tables, "User:mallory", refused_pids=6000)
        enforcer.wait_for("throttled", "refused PIDs keep arriving (3000, then 6000)")
        for each in hoard:
            each.send()
            each.send()
        assert all(each.throttles_s for each in hoard)
        assert quotas_of(broker) == {QuotaEntity("mallory"): {"request_percentage": 0.01}}
    wait_until(lambda: quotas_of(broker) == {}, "the quota is taken back")

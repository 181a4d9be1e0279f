import random
import shutil
import signal
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from broker.enforcement.broker_clock import BrokerClock, steady_ms, wall_ms
from broker.enforcement.clock import BrokersTime
from broker.enforcement.lock import ensure_enforcer_topic
from broker.enforcement.store.lease_topic import LeaseTopic
from broker.errors import RequestRefusedError
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaChange, QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import end_offset, new_topic, wait_until
from tests.kits.enforce_kit import (
    Careless,
    Steady,
    actions,
    decide,
    end_orders,
    enforcing,
    killed_after,
    quotas_of,
    release,
)
from wire.topics import ENFORCER_TOPIC

MALLORY = QuotaEntity("mallory")
BATCH = QuotaEntity("mallory", "mallory-batch")
APP = QuotaEntity("mallory", "mallory-app")
THROTTLED = {REQUEST_PERCENTAGE: 0.01}


@pytest.fixture
def quotas(broker: LocalBroker) -> Iterator[ClientQuotas]:
    """Client quotas of the shared broker, which are as before afterwards."""
    before = quotas_of(broker)
    end_orders(broker)
    with ClientQuotas({"bootstrap_servers": broker.admin_servers}) as client:
        yield client
        wait_until(lambda: client.describe_all() == before, "the quotas are as before")


def set_quota(quotas: ClientQuotas, entity: QuotaEntity, value: float | None) -> None:
    assert quotas.alter([QuotaChange(entity, REQUEST_PERCENTAGE, value)]) == {entity: None}
    wait_for_quota(quotas, entity, {} if value is None else {REQUEST_PERCENTAGE: value})


def wait_for_quota(quotas: ClientQuotas, entity: QuotaEntity, expected: dict[str, float]) -> None:
    """A broker learns what the controller has taken a moment later."""
    wait_until(lambda: quotas.describe(entity) == expected, f"{entity} has {expected}")


@pytest.mark.parametrize("name", ["mallory", 'a b\n"ü;*'])
def test_quotas_are_read_as_they_were_set_also_with_strange_names(quotas: ClientQuotas, name: str) -> None:
    entity = QuotaEntity("mallory", name)
    set_quota(quotas, entity, 0.25)
    wait_for_quota(quotas, entity, {REQUEST_PERCENTAGE: 0.25})
    assert quotas.describe(MALLORY) == {}
    set_quota(quotas, entity, None)


def test_of_several_changes_the_bad_one_is_told_and_the_others_are_made(quotas: ClientQuotas) -> None:
    errors = quotas.alter([QuotaChange(APP, "no_such_key", 1.0), QuotaChange(BATCH, REQUEST_PERCENTAGE, 5.0)])
    assert isinstance(errors[APP], RequestRefusedError)
    assert errors[BATCH] is None
    wait_for_quota(quotas, BATCH, {REQUEST_PERCENTAGE: 5.0})
    set_quota(quotas, BATCH, None)


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas
) -> None:
    decide(tables, "User:mallory")
    # A stream or an enforcer that applies decisions would create the missing table.
    shutil.rmtree(tables / "enforcement_actions")
    before = everything(broker, tables)
    with enforcing(broker, tables, lock=False) as enforcer:
        enforcer.wait_for("throttled")
    assert enforcer.notices[-1]["dry_run"]
    brokers, decisions = enforcer.notices_of("seen")
    assert "these brokers answer: 1" in brokers["why"]
    assert "decisions in force in" in decisions["why"]
    assert "1 (User:mallory until " in decisions["why"]
    (lever,) = enforcer.notices_of("lever")
    assert lever["why"].startswith("broker 1 has org.apache.kafka.metadata.authorizer.StandardAuthorizer: no hold")
    assert enforcer.notices_of("lock") == []
    assert quotas.describe(MALLORY) == {}
    assert everything(broker, tables) == before


def test_a_dry_run_beside_an_enforcer_knows_its_leases(broker: LocalBroker, tables: Path, quotas: ClientQuotas) -> None:
    bob = QuotaEntity("bob")
    decide(tables, "User:mallory")
    with enforcing(broker, tables, "--apply", "--no-narrow") as enforcer:
        enforcer.wait_for("throttled")
        wait_for_quota(quotas, MALLORY, THROTTLED)
        set_quota(quotas, bob, 0.01)
        with enforcing(broker, tables, lock=False) as dry:
            dry.wait_for("alert", "--entity-name bob")
        set_quota(quotas, bob, None)
        assert len(dry.notices_of("alert")) == 1


def everything(broker: LocalBroker, tables: Path) -> tuple[object, ...]:
    """What a dry run could leave behind: topics, groups, and files, with their times."""
    admin = AdminClient({**broker.admin_config()})
    groups = {group.group_id for group in admin.list_consumer_groups().result().valid}
    files = {file: file.stat().st_mtime_ns for file in tables.rglob("*")}
    return set(admin.list_topics(timeout=30).topics), groups, end_offset(broker, ENFORCER_TOPIC), files


def test_where_a_broker_lacks_the_class_the_whole_user_is_throttled_without_narrowing_and_the_reason_given(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas
) -> None:
    with enforcing(broker, tables, "--apply", "--no-narrow") as enforcer:
        enforcer.wait_for("lever", "broker 1 has org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        decide(tables, "User:mallory", client_ids=[("mallory-batch", 20)])
        enforcer.wait_for("throttled", "no hold: not every broker has the authorizer (not 1)")
        wait_for_quota(quotas, MALLORY, THROTTLED)


def test_mallory_is_throttled_by_one_client_id_and_alice_and_her_good_client_are_not(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas
) -> None:
    topic = new_topic(broker, "orders", 3)
    alice, app = (
        Steady(broker.client_config("alice"), topic, "alice"),
        Steady(broker.client_config("mallory"), topic, "mallory-app"),
    )
    with (
        enforcing(broker, tables, "--apply") as enforcer,
        Careless(broker.client_config("mallory"), topic, "mallory-batch") as batch,
    ):
        wait_until(lambda: batch.producers > 3, "mallory produces")
        assert batch.throttles_s == []
        decide(tables, "User:mallory", client_ids=[("mallory-batch", 20)])
        enforcer.wait_for("throttled")
        wait_for_quota(quotas, BATCH, THROTTLED)
        wait_until(lambda: len(batch.throttles_s) > 1, "throttle_cb fires")
        for _ in range(10):
            alice.send()
            app.send()
        assert (alice.throttles_s, app.throttles_s) == ([], [])
    # The stop in good order restores it, although the lease was not due.
    wait_for_quota(quotas, BATCH, {})


def test_a_lease_ends_when_its_decision_does_and_brings_back_what_was_before(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas
) -> None:
    set_quota(quotas, MALLORY, 50.0)
    with enforcing(broker, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", seconds=600)
        wait_for_quota(quotas, MALLORY, THROTTLED)
        # A raised quota shortens it. A short decision alone could end before a busy machine looks.
        until = decide(tables, "User:mallory", seconds=1)
        wait_for_quota(quotas, MALLORY, {REQUEST_PERCENTAGE: 50.0})
        assert datetime.now(timezone.utc) >= until
        enforcer.wait_for("restored")
    assert list(dict.fromkeys(actions(tables))) == ["applying", "in_force", "restoring", "restored"]
    set_quota(quotas, MALLORY, None)


def test_an_admin_who_changes_the_quota_during_a_lease_keeps_the_change(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas
) -> None:
    with enforcing(broker, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", seconds=600)
        wait_for_quota(quotas, MALLORY, THROTTLED)
        set_quota(quotas, MALLORY, 33.0)
        enforcer.wait_for("relinquished", "someone else")
        decide(tables, "User:mallory")
        enforcer.wait_for("skipped", "someone else")
    wait_for_quota(quotas, MALLORY, {REQUEST_PERCENTAGE: 33.0})
    set_quota(quotas, MALLORY, None)


def test_a_second_enforcer_waits_and_takes_over_when_the_first_is_killed(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas
) -> None:
    with (
        killed_after(broker, tables, "--apply") as first,
        enforcing(broker, tables, "--apply", lock=False) as second,
    ):
        second.wait_for("lock", "waiting")
        decide(tables, "User:mallory", seconds=300)
        first.wait_for("throttled")
        assert second.notices_of("throttled") == []
        first.end(signal.SIGKILL)
        second.wait_for("lock", "open leases found: 1")
        wait_for_quota(quotas, MALLORY, THROTTLED)
    assert actions(tables) == ["applying", "in_force", "restoring", "restored"]


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 60_000])
def test_the_broker_s_time_is_known_whatever_this_host_s_clock_says(broker: LocalBroker, ahead_ms: int) -> None:
    ensure_enforcer_topic(broker.admin_config())
    time_ = BrokersTime(lambda: wall_ms() + ahead_ms, steady_ms)

    with BrokerClock(broker.admin_config(), time_) as clock:
        clock.wait()

    # This host is the broker's, too. What the way there and back took is left out: the skew can only look smaller.
    assert abs(time_.now_ms() - wall_ms()) < 5_000
    assert abs(time_.skew_ms() + ahead_ms) < 5_000
    # The next enforcer learns this time from the topic.
    with LeaseTopic(broker.admin_config()) as topic:
        topic.read(again=True)
    assert abs(topic.seen_ms - wall_ms()) < 60_000


def test_the_kill_switch_restores_all_while_an_enforcer_runs_and_also_without(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas
) -> None:
    with killed_after(broker, tables, "--apply") as killed:
        decide(tables, "User:mallory", seconds=300)
        killed.wait_for("throttled")
        release(broker, tables, "--release", "mallory")
        wait_for_quota(quotas, MALLORY, {})
        decide(tables, "User:alice", seconds=300)
        wait_for_quota(quotas, QuotaEntity("alice"), THROTTLED)
    # Nobody runs now: it waits for the dead one's lock and restores by itself.
    release(broker, tables, "--release-all")
    wait_for_quota(quotas, QuotaEntity("alice"), {})


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_9_at_any_time_leaves_the_quotas_as_they_were(
    broker: LocalBroker, tables: Path, quotas: ClientQuotas, kills: int
) -> None:
    set_quota(quotas, APP, 50.0)
    before = quotas.describe_all()
    chance = random.SystemRandom()
    for number in range(kills):
        with killed_after(broker, tables, "--apply"):
            decide(tables, "User:mallory", seconds=chance.uniform(0.2, 8), client_ids=[("mallory-app", 9)])
            decide(tables, f"User:u{number}", seconds=chance.uniform(0.2, 8))
            time.sleep(chance.uniform(0, 1))

    with enforcing(broker, tables, "--apply"):
        wait_until(lambda: quotas.describe_all() == before, "all leases are over")
    set_quota(quotas, APP, None)

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from broker.errors import TopicError
from broker.kafka import topic_setup
from broker.kafka.grants import Grants
from broker.kafka.topic_setup import Difference, TopicPlan, TopicSetup, plan_topics
from broker.kafka.topics import admin_client, existing_topics
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.admin_kit import allow, bound
from tests.kits.broker_kit import new_topic, wait_until
from tests.kits.plugin_kit import NO_PLUGIN
from wire.topics import HOLDS, OWN_TOPICS, PRODUCE_EVENTS, REPORTS

USERS = {"mallory": "m"}


@pytest.fixture(scope="module")
def guarded(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own, without the plugin: the ACLs would be in the way of others."""
    with LocalBroker(tmp_path_factory.mktemp("guarded"), USERS, jars=jars, metric_reporters=NO_PLUGIN) as running:
        yield running


@pytest.fixture(scope="module")
def setup(guarded: LocalBroker) -> TopicSetup:
    made = TopicSetup(guarded.admin_config())
    before = made.create(plan_topics(partitions=2))
    assert {outcome.action for outcome in before} == {"created"}
    assert {outcome.name: outcome.partitions for outcome in made.describe(plan_topics())} == {
        PRODUCE_EVENTS: 2,
        REPORTS: 1,
        HOLDS: 1,
    }
    return made


def test_existing_topics_are_reported_and_left_alone(setup: TopicSetup) -> None:
    again = setup.create(plan_topics(partitions=2))

    assert {outcome.name for outcome in again} == OWN_TOPICS
    assert {outcome.action for outcome in again} == {"exists"}


def test_differing_settings_are_named_and_altered_only_on_request(setup: TopicSetup) -> None:
    hour = 3600 * 1000
    wanted = [plan for plan in plan_topics(partitions=3, retention_hours=1) if plan.name == PRODUCE_EVENTS]

    (told,) = setup.create(wanted)
    assert told.action == "differs"
    assert told.differences == [
        Difference("retention.ms", str(168 * hour), str(hour)),
        Difference("partitions", "2", "3"),
    ]
    assert setup.describe(plan_topics())[0].differences == []

    (altered,) = setup.create(wanted, alter=True)
    assert altered.action == "altered"
    # Partitions are never added: a principal's events would change theirs.
    left = [Difference("partitions", "2", "3")]
    wait_until(lambda: setup.describe(wanted)[0].differences == left, "the broker knows the new retention")

    # Without a wish, the retention that somebody chose stays.
    setup.create(plan_topics(), alter=True)
    assert setup.describe(wanted)[0].differences == left
    week = plan_topics(retention_hours=168)
    setup.create(week, alter=True)
    wait_until(lambda: setup.describe(week)[0].differences == [], "the broker knows the old retention")


def test_a_topic_that_brokers_list_after_its_deletion_is_missing_and_made_again(
    guarded: LocalBroker, setup: TopicSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [TopicPlan(new_topic(guarded, "deleted"), {}, 1)]
    stale = existing_topics(admin_client(guarded.admin_config()))
    setup.delete(plans[0].name)

    monkeypatch.setattr(topic_setup, "existing_topics", lambda *_: stale)

    assert [each.action for each in setup.describe(plans)] == ["missing"]
    assert [each.action for each in setup.create(plans)] == ["created"]


def test_first_acls_that_might_keep_the_plugin_from_writing_are_refused(
    guarded: LocalBroker, setup: TopicSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["topics", "create", "--bootstrap-server", guarded.admin_servers, "--reader", "User:mallory"]
    grants = Grants(guarded.admin_config())
    assert run(arguments) == 1
    assert "broker 1 does not run pidquota.HoldAuthorizer" in capsys.readouterr().err
    assert {each.action for each in grants.plan("User:mallory")} == {"missing"}

    # Further ACLs shut nobody out.
    with bound(guarded, allow("*", "User:kafka", ResourceType.TOPIC, AclOperation.ALL)):
        assert run(arguments) == 0
        grants.remove(grants.plan("User:mallory"))


def test_a_user_without_the_right_to_grant_is_told_which_one(guarded: LocalBroker) -> None:
    # This broker lets everybody do what no ACL speaks of.
    grants = Grants(guarded.client_config("mallory"))
    with bound(guarded, allow("kafka-cluster", "User:stream", ResourceType.BROKER, AclOperation.ALTER)):
        plan = grants.plan("User:mallory")
        with pytest.raises(TopicError, match=r"can.t grant .*DESCRIBE and ALTER on the cluster"):
            grants.create(plan)


def test_the_command_says_what_it_did(
    guarded: LocalBroker, setup: TopicSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = guarded.admin_servers

    for more in (["--partitions", "2"], ["--dry-run"]):
        assert run(["topics", "create", "--bootstrap-server", servers, *more]) == 0
        assert f"{PRODUCE_EVENTS}: exists, 2 partitions\n" in capsys.readouterr().out

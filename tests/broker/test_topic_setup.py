import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from broker.errors import BrokerUnreachableError, TopicError
from broker.kafka import topic_setup
from broker.kafka.grants import Grant, Grants
from broker.kafka.roles import RIGHTS, Role
from broker.kafka.tail import TopicReader
from broker.kafka.topic_setup import Difference, TopicPlan, TopicSetup, plan_topics
from broker.kafka.topics import admin_client, ensure_topics, existing_topics
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import new_topic, wait_until
from tests.kits.plugin_kit import NO_PLUGIN
from wire.topics import HOLDS, OWN_TOPICS, PRODUCE_EVENTS, REPORTS

USERS = {"broker": "b", "stream": "s", "mallory": "m"}


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


def grant(broker: LocalBroker, principals: dict[Role, str]) -> list[Grant]:
    """As `topics create` does on a broker that allows what no ACL names."""
    grants = Grants(broker.admin_config(), denies_by_default=False)
    return grants.create(grants.plan(principals))


def outcome_of_writing(broker: LocalBroker, user: str, topic: str) -> str | None:
    errors: list[KafkaError | None] = []
    producer = Producer({**broker.client_config(user), "log_level": 0, "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", b"key", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(60)
    (error,) = errors
    return None if error is None else error.name()


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
    setup.create(plan_topics(), alter=True)
    wait_until(lambda: setup.describe(plan_topics())[0].differences == [], "the broker knows the old retention")


def test_a_topic_that_brokers_list_after_its_deletion_is_missing_and_made_again(
    guarded: LocalBroker, setup: TopicSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [TopicPlan(new_topic(guarded, "deleted"), {}, 1)]
    stale = existing_topics(admin_client(guarded.admin_config()))
    setup.delete(plans[0].name)

    monkeypatch.setattr(topic_setup, "existing_topics", lambda *_: stale)

    assert [each.action for each in setup.describe(plans)] == ["missing"]
    assert [each.action for each in setup.create(plans)] == ["created"]


def test_a_topic_that_is_gone_counts_as_deleted(setup: TopicSetup) -> None:
    setup.delete("nobody-has-made-this")


def test_only_the_brokers_may_write(guarded: LocalBroker, setup: TopicSetup) -> None:
    assert outcome_of_writing(guarded, "mallory", PRODUCE_EVENTS) is None

    grant(guarded, {Role.BROKER: "User:broker", Role.STREAM: "User:stream"})

    for topic in (PRODUCE_EVENTS, REPORTS):
        for user in ("mallory", "stream"):
            wait_until(
                partial(is_refused, guarded, user, topic),
                f"{user} refused",
            )
        assert outcome_of_writing(guarded, "broker", topic) is None
        with TopicReader(guarded.client_config("stream"), topic) as records:
            assert len(list(records.read_to_end())) > 0


def is_refused(broker: LocalBroker, user: str, topic: str) -> bool:
    return outcome_of_writing(broker, user, topic) == "TOPIC_AUTHORIZATION_FAILED"


def test_a_broker_s_user_may_create_the_topics_and_no_others(guarded: LocalBroker, setup: TopicSetup) -> None:
    grant(guarded, {Role.BROKER: "User:broker", Role.STREAM: "User:stream"})
    for topic in (PRODUCE_EVENTS, REPORTS):
        setup.delete(topic)

    ensure_topics(guarded.client_config("broker"), partitions=2)

    assert {each.action for each in setup.describe(plan_topics(partitions=2))} == {"exists"}


def test_a_user_without_the_right_is_told_which_one(guarded: LocalBroker, setup: TopicSetup) -> None:
    # This broker lets everybody do what no ACL speaks of.
    to_the_stream = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        "User:stream",
        "*",
        AclOperation.ALTER,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({**guarded.admin_config()})
    (granted,) = admin.create_acls([to_the_stream]).values()
    granted.result()

    grants = Grants(guarded.client_config("mallory"), denies_by_default=False)
    with pytest.raises(TopicError, match=r"can.t grant .*ALTER on the cluster"):
        grants.create([Grant("User:mallory", RIGHTS[Role.BROKER][0], "missing")])


def test_the_command_says_what_it_did(
    guarded: LocalBroker, setup: TopicSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = guarded.admin_servers

    assert run(["topics", "create", "--bootstrap-servers", servers, "--partitions", "2", "--json"]) == 0
    created = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["action"] for line in created} == {"exists"}

    assert run(["topics", "describe", "--bootstrap-servers", servers]) == 0
    assert f"{PRODUCE_EVENTS}: exists, 2 partitions" in capsys.readouterr().out


def test_an_unreachable_cluster_is_said_in_one_line() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1 within 0\.3 s"):
        TopicSetup({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.3).describe(plan_topics())

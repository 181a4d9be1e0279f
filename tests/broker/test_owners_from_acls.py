import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from broker.kafka.acls import AclResource, Acls
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.local.local_broker import LocalBroker
from broker.occupancy.acl_owners import AclOwners, OwnerReason, permits
from broker.occupancy.census import OwnersFrom, TakenCensus, take_census
from lifecycle.occupancy import count_occupancy
from tests.kits.admin_kit import allow, binding, bound
from tests.kits.broker_kit import LIMIT_S, new_topic, produce, produce_in_transactions, transactional_producer
from tests.kits.occupancy_kit import QUICKLY, census_of
from tests.kits.plugin_kit import NO_PLUGIN

T = TypeVar("T")
HOST = "127.0.0.1"
USERS = ("alice", "bob", "carol", "mallory")
WORLDS = 40
WORLDS_WITH_TRANSACTIONS = 3
PERMISSIONS = (AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)
OPERATIONS = {
    AclPermissionType.ALLOW: (AclOperation.WRITE, AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE),
    # Without DESCRIBE a client would not even try.
    AclPermissionType.DENY: (AclOperation.WRITE, AclOperation.ALL, AclOperation.READ),
}


@pytest.fixture(scope="module")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own, without the plugin: ACLs on all resources concern everybody."""
    users = {name: f"{name}-secret" for name in (*USERS, "admin")}
    with LocalBroker(tmp_path_factory.mktemp("acls"), users, jars=jars, metric_reporters=NO_PLUGIN) as running:
        yield running


# The evaluation


def world(number: int) -> str:
    """A prefix of names that ACLs of other worlds do not match."""
    return f"world{number:02}."


def names_of(number: int) -> list[str]:
    return [world(number) + name for name in ("a", "ab", "abc", "b")]


def generated(number: int, kind: ResourceType) -> set[AclBinding]:
    random = np.random.default_rng([number, kind.value])

    def draw(values: Sequence[T]) -> T:
        return values[int(random.integers(len(values)))]

    literals = [(name, ResourcePatternType.LITERAL) for name in names_of(number)]
    prefixes = [(world(number) + prefix, ResourcePatternType.PREFIXED) for prefix in ("", "a", "ab", "abcd")]
    bindings = set()
    for _ in range(random.integers(8)):
        (name, pattern), permission = draw(literals + prefixes), draw(PERMISSIONS)
        principal, host = f"User:{draw((*USERS[:3], '*'))}", draw(("*", "*", HOST, "10.9.9.9"))
        operation = draw(OPERATIONS[permission])
        bindings.add(
            binding(name, principal, host, kind=kind, pattern=pattern, operation=operation, permission=permission)
        )
    return bindings


def on_all(user: str, kind: ResourceType, permission: AclPermissionType) -> AclBinding:
    return binding("*", f"User:{user}", kind=kind, permission=permission)


def owners_now(broker: LocalBroker) -> AclOwners:
    with KafkaAdmin(KafkaConfig.load(broker.admin_servers)) as admin:
        return AclOwners(Acls(admin).for_writers(), allows_without_acl=True)


def written(broker: LocalBroker, user: str, topics: Sequence[str]) -> set[str]:
    """Of these topics, those that a client of this user could write; all others refused it."""
    outcome: dict[str, bool] = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None or error.name() == "TOPIC_AUTHORIZATION_FAILED", error
        outcome[message.topic() or ""] = error is None

    producer = Producer({**broker.client_config(user), "log_level": 0})
    for topic in topics:
        try:
            producer.produce(topic, b"value", on_delivery=on_delivery)
        except KafkaException as error:
            # librdkafka refuses at once what it already knows to be denied.
            if error.args[0].name() != "TOPIC_AUTHORIZATION_FAILED":
                raise
            outcome[topic] = False
    assert producer.flush(LIMIT_S) == 0
    assert set(outcome) == set(topics)
    return {topic for topic, is_written in outcome.items() if is_written}


def begins(broker: LocalBroker, user: str, transactional_id: str) -> bool:
    """Whether this user may use the transactional id."""
    producer = Producer({**broker.client_config(user), "transactional.id": transactional_id, "log_level": 0})
    try:
        producer.init_transactions(LIMIT_S)
    except KafkaException as error:
        if error.args[0].name() != "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
            raise
        return False
    return True


@pytest.mark.parametrize(
    "everywhere",
    [
        pytest.param((), marks=pytest.mark.slow),
        pytest.param((("bob", AclPermissionType.ALLOW),), marks=pytest.mark.slow),
        (("*", AclPermissionType.ALLOW), ("carol", AclPermissionType.DENY)),
    ],
    ids=["no wildcard", "bob everywhere", "everybody but carol"],
)
def test_each_client_may_write_what_the_evaluation_says(
    broker: LocalBroker, everywhere: Sequence[tuple[str, AclPermissionType]]
) -> None:
    kinds = {ResourceType.TOPIC: range(WORLDS), ResourceType.TRANSACTIONAL_ID: range(WORLDS_WITH_TRANSACTIONS)}
    topics = [name for number in range(WORLDS) for name in names_of(number)]
    ids = [name for number in range(WORLDS_WITH_TRANSACTIONS) for name in names_of(number)]
    create(broker, topics)
    bindings = [
        *(each for kind, numbers in kinds.items() for number in numbers for each in generated(number, kind)),
        *(on_all(user, kind, permission) for kind in kinds for user, permission in everywhere),
    ]

    with bound(broker, *bindings):
        owners = owners_now(broker)

        def may_write(user: str, resource: AclResource, name: str) -> bool:
            acls = owners.matching(resource, name)
            return permits(acls, f"User:{user}", HOST) if acls else True

        def expected(user: str, resource: AclResource, names: Sequence[str]) -> set[str]:
            return {name for name in names if may_write(user, resource, name)}

        for user in USERS:
            assert written(broker, user, topics) == expected(user, AclResource.TOPIC, topics), user
            started = {name for name in ids if begins(broker, user, name)}
            assert started == expected(user, AclResource.TRANSACTIONAL_ID, ids), user


def create(broker: LocalBroker, topics: Sequence[str]) -> None:
    admin = AdminClient({**broker.admin_config()})
    there = admin.list_topics(timeout=LIMIT_S).topics
    missing = [NewTopic(topic, 1, 1) for topic in topics if topic not in there]
    for created in admin.create_topics(missing).values() if missing else ():
        created.result()


# The census


def owners(broker: LocalBroker) -> tuple[TakenCensus, set[tuple[str, str]]]:
    """A census, and each topic's owners."""
    taken = census_of(broker.admin_servers)
    return taken, {(each.topic, each.principal) for each in count_occupancy(taken.census)}


def test_without_the_plugin_topics_of_a_single_writer_are_its_own_and_the_rest_is_counted(broker: LocalBroker) -> None:
    # Given topics of one, two and no principals, and a transactional id of one of the two.
    own, shared, free = (new_topic(broker, name) for name in ("own", "shared", "free"))
    billing = allow("billing-", "User:bob", ResourceType.TRANSACTIONAL_ID, prefixed=True)
    before, _ = owners(broker)

    # When they are written.
    with bound(broker, allow(own, "User:alice"), allow(shared, "User:alice"), allow(shared, "User:bob"), billing):
        for user, topic in (("alice", own), ("alice", shared), ("bob", shared), ("carol", free)):
            produce(broker.client_config(user), topic)
        produce_in_transactions(transactional_producer(broker.client_config("bob"), "billing-1"), shared)
        taken, found = owners(broker)

    # Then only what is certain has an owner, and the rest a reason.
    assert taken.owners_from is OwnersFrom.ACLS
    assert {each for each in found if each[0] in (own, shared, free)} == {
        (own, "User:alice"),
        (shared, "User:bob"),
        (shared, "unknown"),
        (free, "unknown"),
    }
    new = {reason: count - before.unowned.get(reason, 0) for reason, count in taken.unowned.items()}
    assert new[OwnerReason.SEVERAL] == 2
    assert new[OwnerReason.NO_ACL] == 1


def test_without_the_right_to_describe_acls_nobody_has_an_owner(broker: LocalBroker) -> None:
    orders = new_topic(broker, "orders")
    produce(broker.client_config("alice"), orders)
    others = allow("kafka-cluster", "User:alice", ResourceType.BROKER, AclOperation.DESCRIBE)
    settings = allow("kafka-cluster", "User:mallory", ResourceType.BROKER, AclOperation.DESCRIBE_CONFIGS)

    with bound(broker, others, settings, allow(orders, "User:alice")):
        taken = take_census(KafkaConfig(broker.client_config("mallory")), round(1000 * time.time()), QUICKLY)

    assert taken.owners_from is OwnersFrom.NOTHING
    assert taken.unowned == {}
    assert {each.principal for each in count_occupancy(taken.census)} <= {"unknown"}

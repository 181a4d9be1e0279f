import re
import subprocess
import sys
import threading
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

from broker.errors import BrokerUnreachableError
from broker.kafka.acls import Acl, AclResource, Acls
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.local.local_broker import LocalBroker
from broker.tap.acl_owners import AclRules, OwnerReason
from broker.tap.poll_placing import OwnerPatterns, PollOwners, PollPlacement
from tests.broker.test_producer_poll import next_rounds, poll_of, polling
from tests.kits.broker_kit import (
    LIMIT_S,
    new_topic,
    produce,
    produce_in_transactions,
    read_events,
    transactional_producer,
    wait_until,
)
from tests.kits.hold_kit import binding, bound, unbind

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
    """A broker of our own: ACLs on all resources concern everybody."""
    users = {name: f"{name}-secret" for name in (*USERS, "admin")}
    with LocalBroker(tmp_path_factory.mktemp("acls"), users, jars=jars) as running:
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


def rules_now(broker: LocalBroker) -> AclRules:
    with KafkaAdmin(KafkaConfig.load(broker.admin_servers).kafka_python()) as admin:
        return AclRules(Acls(admin).for_writers(), allows_without_acl=True)


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
        rules = rules_now(broker)

        def expected(user: str, resource: AclResource, names: Sequence[str]) -> set[str]:
            return {name for name in names if rules.may_write(f"User:{user}", HOST, resource, name)}

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


# The poll


def allow(user: str, name: str, kind: ResourceType = ResourceType.TOPIC, prefixed: bool = False) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    return binding(name, f"User:{user}", kind=kind, pattern=pattern, permission=AclPermissionType.ALLOW)


def told(broker: LocalBroker, events: str) -> set[tuple[str, str]]:
    return {(event["topic"], principal) for principal, event in read_events(broker, events)}


def command(*arguments: object) -> list[str]:
    poll = ["tap", "poll", "--poll-producers", "1", "--owners-from-acls"]
    return [sys.executable, "-m", "jobs", *poll, *map(str, arguments)]


def test_topics_of_a_single_writer_are_its_own_and_the_rest_is_counted(broker: LocalBroker, tmp_path: Path) -> None:
    # Given topics of one, two and no principals, one in a file, and a transactional id of one of the two.
    events, own, shared, free, filed = (new_topic(broker, name) for name in ("events", "own", "shared", "free", "file"))
    file = tmp_path / "owners.yaml"
    file.write_text(f"- topic: {filed}\n  principal: User:shop\n")
    owners = PollOwners(OwnerPatterns.load(file), from_acls=True)
    billing = allow("bob", "billing-", ResourceType.TRANSACTIONAL_ID, prefixed=True)
    acls = [allow("alice", own), allow("alice", shared), allow("bob", shared), allow("alice", filed), billing]
    placements: list[PollPlacement] = []
    poll = poll_of(broker, owners=owners, topic=events, report_placement=placements.append)

    # When they are written.
    with bound(broker, *acls), polling(poll):
        for user, topic in (("alice", own), ("alice", shared), ("bob", shared), ("carol", free), ("alice", filed)):
            produce(broker.client_config(user), topic)
        produce_in_transactions(transactional_producer(broker.client_config("bob"), "billing-1"), shared)
        next_rounds(poll)

    # Then only what is certain has an owner, and the rest a reason.
    assert told(broker, events) == {(own, "User:alice"), (filed, "User:shop"), (shared, "User:bob")}
    assert (placements[-1].by_file, placements[-1].by_acls) == (1, 2)
    unattributed = {(each.reason, topic.topic): topic for each in placements[-1].unattributed for topic in each.topics}
    assert unattributed[OwnerReason.SEVERAL, shared].principals == ("User:alice", "User:bob")
    assert unattributed[OwnerReason.SEVERAL, shared].producer_ids == 2
    assert unattributed[OwnerReason.NO_ACL, free].producer_ids == 1


def test_a_change_of_acls_is_followed(broker: LocalBroker) -> None:
    events, orders = new_topic(broker, "events"), new_topic(broker, "orders")
    poll = poll_of(broker, owners=PollOwners(None, from_acls=True), topic=events)

    with bound(broker, allow("alice", orders)), polling(poll):
        produce(broker.client_config("alice"), orders)
        next_rounds(poll)
        assert told(broker, events) == {(orders, "User:alice")}
        with bound(broker, allow("bob", orders)):
            unbind(broker, allow("alice", orders))
            for _ in range(3):
                next_rounds(poll)
            produce(broker.client_config("bob"), orders)
            next_rounds(poll)
            assert told(broker, events) == {(orders, "User:alice"), (orders, "User:bob")}


def test_producers_that_are_new_while_acls_are_unavailable_are_reported_afterwards(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, orders = new_topic(broker, "events"), new_topic(broker, "orders")
    poll = poll_of(broker, owners=PollOwners(None, from_acls=True), topic=events)
    read, is_down, failed = Acls.for_writers, threading.Event(), []

    def for_writers(acls: Acls) -> frozenset[Acl]:
        if is_down.is_set():
            failed.append(True)
            raise BrokerUnreachableError
        return read(acls)

    monkeypatch.setattr(Acls, "for_writers", for_writers)
    with bound(broker, allow("alice", orders)), polling(poll):
        is_down.set()
        produce(broker.client_config("alice"), orders)
        wait_until(lambda: len(failed) > 2, "rounds fail")
        is_down.clear()
        next_rounds(poll)

    assert told(broker, events) == {(orders, "User:alice")}


def test_the_command_prints_the_share_and_why_the_rest_has_no_owner(broker: LocalBroker) -> None:
    events, own, shared = (new_topic(broker, name) for name in ("events", "own", "shared"))
    acls = [allow("alice", own), *(allow(user, shared) for user in ("alice", "bob"))]
    for topic in (own, shared):
        produce(broker.client_config("alice"), topic)
    arguments = ("--bootstrap-servers", broker.admin_servers, "--topic", events)

    with bound(broker, *acls), subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        lines = []
        for line in run.stdout:
            lines.append(line)
            if "several principals may write" in line:
                break
        run.terminate()
        run.stdout.read()

    assert "super user" in lines[0]
    assert any(
        re.match(r"owners: \d+ of \d+ producer ids \(.*%\): \d+ by ACLs, 0 by the file$", line) for line in lines
    )
    assert f"{shared} (User:alice, User:bob)" in lines[-1]


def test_without_the_right_to_describe_acls_it_ends_with_the_remedy(broker: LocalBroker, tmp_path: Path) -> None:
    events = new_topic(broker, "events")
    settings = tmp_path / "client.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in broker.client_config("mallory").items()))
    arguments = ("--bootstrap-servers", broker.bootstrap_servers, "--topic", events, "--kafka-config", settings)
    others = binding(
        "kafka-cluster",
        "User:alice",
        kind=ResourceType.BROKER,
        operation=AclOperation.DESCRIBE,
        permission=AclPermissionType.ALLOW,
    )

    with bound(broker, others):
        ended = subprocess.run(command(*arguments), check=False, capture_output=True, text=True, timeout=LIMIT_S)

    assert ended.returncode == 1
    assert ended.stderr == (
        "error: the brokers do not show their ACLs (ClusterAuthorizationFailedError): grant this user DESCRIBE on the "
        "cluster\n"
    )

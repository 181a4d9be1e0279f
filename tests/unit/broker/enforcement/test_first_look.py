"""Tests of missing rights with a fake admin client; tests/broker has real ones."""

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from broker.enforcement.first_look import look_at_decisions, require_rights
from broker.errors import BrokerUnreachableError, EnforceError
from tests.kits.enforcer_kit import World
from wire.topics import ENFORCER_TOPIC

SETTINGS = {"bootstrap.servers": "b1:9092", "sasl.username": "job"}
ALL = set(AclOperation)
TIMED_OUT = -185
"""librdkafka's own code."""


class Admin:
    """Answers what it is told: operations, or the code of an error."""

    def __init__(self) -> None:
        self.answers: dict[str, set[AclOperation] | int | None] = {}

    def _answer(self, about: str) -> "Future[Any]":
        answered, answer = Future[Any](), self.answers.get(about, ALL)
        if isinstance(answer, int):
            answered.set_exception(KafkaException(KafkaError(answer)))
        else:
            answered.set_result(SimpleNamespace(authorized_operations=answer))
        return answered

    def describe_cluster(self, **_: Any) -> "Future[Any]":
        return self._answer("cluster")

    def metadata(self, _timeout_s: float) -> None:
        """The login is not refused."""

    def describe_topics(self, *_: Any, **__: Any) -> "dict[str, Future[Any]]":
        return {ENFORCER_TOPIC: self._answer("topic")}

    def describe_consumer_groups(self, *_: Any, **__: Any) -> "dict[str, Future[Any]]":
        return {ENFORCER_TOPIC: self._answer("group")}


@pytest.fixture
def admin() -> Iterator[Admin]:
    admin = Admin()
    with patch("broker.kafka.own_rights.admin_client", lambda _: admin):
        yield admin


def require(*, with_holds: bool = False, apply: bool = True) -> None:
    require_rights(SETTINGS, with_holds=lambda: with_holds, apply=apply)


def test_a_user_with_all_rights_lacks_nothing_even_before_topic_and_group_exist(admin: Admin) -> None:
    require(with_holds=True)
    admin.answers |= dict.fromkeys(("topic", "group"))
    require(with_holds=True)


def test_a_user_that_can_not_see_its_rights_gets_the_full_list(admin: Admin) -> None:
    admin.answers["cluster"] = None
    with pytest.raises(EnforceError) as error:
        require()
    for each in ("DESCRIBE on", "DESCRIBE_CONFIGS on", "ALTER_CONFIGS on", "ALTER on"):
        assert each in str(error.value)


def test_rights_on_acls_are_needed_where_holds_can_be_used(admin: Admin) -> None:
    admin.answers["cluster"] = {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    require()
    with pytest.raises(EnforceError, match="User:job lacks DESCRIBE on the cluster, ALTER on the cluster: run"):
        require(with_holds=True)


def test_a_dry_run_needs_rights_to_read_alone(admin: Admin) -> None:
    admin.answers = {"cluster": {AclOperation.DESCRIBE_CONFIGS, AclOperation.DESCRIBE}, "topic": set(), "group": set()}
    require(with_holds=True, apply=False)


def test_a_refused_right_is_missing(admin: Admin) -> None:
    admin.answers["topic"] = KafkaError.TOPIC_AUTHORIZATION_FAILED
    admin.answers["group"] = KafkaError.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(EnforceError) as error:
        require()
    for name in ("READ on topic", "WRITE on topic", "READ on groups"):
        assert f"{name} {ENFORCER_TOPIC}" in str(error.value)


@pytest.mark.parametrize(
    ("about", "code"),
    [
        ("topic", KafkaError.UNKNOWN_TOPIC_OR_PART),
        ("topic", KafkaError.LEADER_NOT_AVAILABLE),
        ("group", KafkaError.COORDINATOR_NOT_AVAILABLE),
        ("group", KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        ("group", KafkaError.NOT_COORDINATOR),
        ("group", TIMED_OUT),
    ],
)
def test_a_topic_or_group_of_a_young_cluster_ends_no_enforcer(admin: Admin, about: str, code: int) -> None:
    admin.answers[about] = code
    require()


def test_a_cluster_that_does_not_answer_is_an_error_with_the_remedy(admin: Admin) -> None:
    admin.answers["cluster"] = TIMED_OUT
    with pytest.raises(BrokerUnreachableError, match=r"no Kafka broker answers at b1:9092 .* check that it runs"):
        require()


def looked(world: World) -> str:
    look_at_decisions(world.decisions, "/tables", world.notices.append, world.now_ms)
    return world.notices_of("seen")[-1].why


def test_of_the_decisions_in_force_ten_are_named_and_the_others_counted() -> None:
    world = World()
    assert looked(world) == "no decision is in force in /tables"
    for number in range(12):
        world.decide(f"User:u{number}", 60)
    world.decide("User:short", 5)
    world.pass_seconds(10)

    found = looked(world)

    assert found.startswith("decisions in force in /tables: 12 (User:u")
    assert (found.count(" until "), found.endswith(", and 2 more)"), "short" in found) == (10, True, False)

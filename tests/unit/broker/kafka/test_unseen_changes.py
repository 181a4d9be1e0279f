"""Brokers that show a change of topics or rights only after some time, or never."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclBindingFilter, ClusterMetadata, TopicMetadata
from confluent_kafka.cimpl import NewTopic

from broker.errors import TopicError
from broker.kafka.grants import Grant, Grants, binding_of
from broker.kafka.roles import run_rights
from broker.kafka.topic_setup import TopicPlan, TopicSetup
from broker.kafka.topics import Admin, create_topics

NEVER = float("inf")
TIMEOUT_S = 1.0
ALICE, BOB = (
    Grant(f"User:{name}", right, "missing") for name, right in zip(("alice", "bob"), run_rights(), strict=False)
)


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("broker.kafka.topics.time", clock)
    return clock


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Mock:
    admin = Mock(Admin, config={})
    for module in ("topics", "topic_setup", "grants"):
        monkeypatch.setattr(f"broker.kafka.{module}.admin_client", lambda _: admin)
    return admin


def answer(value: object = None, error: int | None = None) -> Future[object]:
    future: Future[object] = Future()
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(KafkaException(KafkaError(error)))
    return future


def answers(*keys: object, error: int | None = None) -> dict[object, Future[object]]:
    return {key: answer(error=error) for key in keys}


def listing(clock: Clock, listed: Callable[[float], Iterable[str]]) -> Callable[[float], ClusterMetadata]:
    """Return `metadata` of a cluster that lists these topics at a time."""

    def metadata(_: float) -> ClusterMetadata:
        cluster = ClusterMetadata()
        cluster.topics = {name: TopicMetadata() for name in listed(clock.now)}
        return cluster

    return metadata


def showing(clock: Clock, shown: Callable[[float, Grant], bool]) -> Callable[..., Future[object]]:
    """Return `describe_acls` of a cluster that shows grants at a time, and an ACL that is older than the project."""
    foreign = [binding_of(each.principal, run_rights("orders")[0]) for each in (ALICE, BOB)]

    def describe_acls(asked: AclBindingFilter, **_: object) -> Future[object]:
        now = [binding_of(each.principal, each.right) for each in (ALICE, BOB) if shown(clock.now, each)]
        return answer([acl for acl in [*foreign, *now] if acl.principal == asked.principal])

    return describe_acls


@pytest.mark.parametrize("seen_at", [{"a": 0.0, "b": 0.5}, {"a": 0.5, "b": 0.0}, {"a": 0.3, "b": 0.5}])
def test_created_and_existing_topics_are_awaited_until_all_are_listed(
    clock: Clock, admin: Mock, seen_at: dict[str, float]
) -> None:
    admin.metadata.side_effect = listing(clock, lambda now: [name for name, at in seen_at.items() if at <= now])
    admin.create_topics.return_value = {**answers("a"), **answers("b", error=KafkaError.TOPIC_ALREADY_EXISTS)}

    assert create_topics(admin, [NewTopic("a", 1, 1), NewTopic("b", 1, 1)], TIMEOUT_S) == {"a": True, "b": False}

    assert 0.5 <= clock.now < 0.6


def test_a_created_topic_that_is_never_listed_is_an_error(clock: Clock, admin: Mock) -> None:
    admin.metadata.side_effect = listing(clock, lambda _: ["old"])
    admin.create_topics.return_value = answers("new")

    with pytest.raises(TopicError, match=r"topics new exist, but are not visible after 1 s: try again, or grant DESC"):
        TopicSetup({}, TIMEOUT_S).create([TopicPlan("new", {})])

    assert TIMEOUT_S <= clock.now < TIMEOUT_S + 0.2


@pytest.mark.parametrize("error", [None, KafkaError.UNKNOWN_TOPIC_OR_PART])
@pytest.mark.parametrize("unseen_at", [0.5, NEVER])
def test_a_deleted_topic_is_awaited_until_it_is_not_listed(
    clock: Clock, admin: Mock, error: int | None, unseen_at: float
) -> None:
    admin.metadata.side_effect = listing(clock, lambda now: ["old", "new"] if now < unseen_at else ["old"])
    admin.delete_topics.return_value = answers("new", error=error)
    setup = TopicSetup({}, TIMEOUT_S)

    if unseen_at == NEVER:
        with pytest.raises(TopicError, match=r"topic 'new' was deleted, but is still visible after 1 s: try again"):
            setup.delete("new")
    else:
        setup.delete("new")

    assert min(unseen_at, TIMEOUT_S) <= clock.now < min(unseen_at, TIMEOUT_S) + 0.2


def test_a_deletion_that_brokers_refuse_is_an_error_at_once(clock: Clock, admin: Mock) -> None:
    admin.metadata.side_effect = listing(clock, lambda _: [])
    admin.delete_topics.return_value = answers("new", error=KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(TopicError, match=r"can't delete topic 'new' \(.*authorization.*\): DELETE on it is needed"):
        TopicSetup({}, TIMEOUT_S).delete("new")

    assert clock.now == 0


def test_settings_that_brokers_refuse_to_show_do_not_make_a_topic_missing(clock: Clock, admin: Mock) -> None:
    admin.metadata.side_effect = listing(clock, lambda _: ["new"])
    admin.describe_configs.side_effect = lambda asked, **_: answers(*asked, error=KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(TopicError, match=r"can't read the settings of topic 'new' .*: DESCRIBE_CONFIGS on it"):
        TopicSetup({}, TIMEOUT_S).describe([TopicPlan("new", {})])


@pytest.mark.parametrize("seen_at", [{ALICE: 0.0, BOB: 0.5}, {ALICE: 0.5, BOB: 0.0}])
def test_rights_are_awaited_until_brokers_show_all_of_them_or_none(
    clock: Clock, admin: Mock, seen_at: dict[Grant, float]
) -> None:
    grants = Grants({}, timeout_s=TIMEOUT_S)
    admin.create_acls.side_effect = admin.delete_acls.side_effect = lambda asked, **_: answers(*asked)

    admin.describe_acls.side_effect = showing(clock, lambda now, grant: seen_at[grant] <= now)
    assert [each.action for each in grants.create([ALICE, BOB])] == ["granted", "granted"]
    assert 0.5 <= clock.now < 0.6

    clock.now = 0.0
    admin.describe_acls.side_effect = showing(clock, lambda now, grant: seen_at[grant] > now)
    there = [replace(each, action="exists") for each in (ALICE, BOB)]
    assert [each.action for each in grants.remove(there)] == ["removed", "removed"]
    assert 0.5 <= clock.now < 0.6


@pytest.mark.parametrize(
    ("change", "action", "before"), [("create", "granted", "missing"), ("remove", "removed", "exists")]
)
def test_a_change_of_rights_that_brokers_never_show_is_an_error(
    clock: Clock, admin: Mock, change: str, action: str, before: str
) -> None:
    grants = Grants({}, timeout_s=TIMEOUT_S)
    admin.create_acls.side_effect = admin.delete_acls.side_effect = lambda asked, **_: answers(*asked)
    admin.describe_acls.side_effect = showing(clock, lambda *_: before == "exists")

    with pytest.raises(TopicError, match=rf"rights were {action}, but .* after 1 s \(User:alice: .*; .*\): try again"):
        getattr(grants, change)([replace(each, action=before) for each in (ALICE, BOB)])

    assert TIMEOUT_S <= clock.now < TIMEOUT_S + 0.2

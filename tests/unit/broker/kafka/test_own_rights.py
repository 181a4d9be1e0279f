"""What a broker's answer says of this user's rights."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from broker.errors import BrokerUnreachableError
from broker.kafka.own_rights import operations_of
from broker.kafka.topics import Admin

SERVERS = "kafka:9092"
TIMED_OUT = -185
"""librdkafka's own code of a request without an answer."""


def refused(code: int) -> "Future[Any]":
    asked: Future[Any] = Future()
    asked.set_exception(KafkaException(KafkaError(code)))
    return asked


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.GROUP_ID_NOT_FOUND,
        TIMED_OUT,
    ],
)
def test_a_young_cluster_lacks_no_right(code: int) -> None:
    assert operations_of(refused(code), SERVERS) == set(AclOperation)


def test_a_refusal_means_no_rights_and_any_other_error_a_broker_that_does_not_answer() -> None:
    assert operations_of(refused(KafkaError.GROUP_AUTHORIZATION_FAILED), SERVERS) == set()
    with pytest.raises(BrokerUnreachableError, match=SERVERS):
        operations_of(refused(KafkaError.BROKER_NOT_AVAILABLE), SERVERS)


def test_a_broker_without_the_field_lacks_no_right() -> None:
    asked: Future[Any] = Future()
    asked.set_result(SimpleNamespace(authorized_operations=None))
    assert operations_of(asked, SERVERS) == set(AclOperation)


def granted(*operations: AclOperation) -> "Future[Any]":
    asked: Future[Any] = Future()
    asked.set_result(SimpleNamespace(authorized_operations=[*operations]))
    return asked


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A cluster on which this user may read everything but `pid-quota-holds` and groups."""
    made = Mock(Admin)

    def describe_topics(asked: TopicCollection, *, include_authorized_operations: bool, **_: object) -> object:
        assert include_authorized_operations
        (name,) = asked.topic_names
        return {name: granted() if name == "pid-quota-holds" else granted(AclOperation.READ)}

    def describe_groups(names: list[str], *, include_authorized_operations: bool, **_: object) -> object:
        assert include_authorized_operations
        return {name: granted(AclOperation.DESCRIBE) for name in names}

    made.describe_topics.side_effect = describe_topics
    made.describe_consumer_groups.side_effect = describe_groups
    monkeypatch.setattr("broker.kafka.own_rights.admin_client", lambda _: made)
    return made

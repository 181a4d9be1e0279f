"""What a broker's answer says of this user's rights."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from broker.errors import BrokerUnreachableError
from broker.kafka.own_rights import operations_of

SERVERS = "kafka:9092"


def refused(code: int) -> "Future[Any]":
    asked: Future[Any] = Future()
    asked.set_exception(KafkaException(KafkaError(code)))
    return asked


@pytest.mark.parametrize(
    "code",
    [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION],
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


def test_a_user_has_the_operations_of_the_answer_and_no_others() -> None:
    for operations in ({AclOperation.READ, AclOperation.DESCRIBE}, set[AclOperation]()):
        asked: Future[Any] = Future()
        asked.set_result(SimpleNamespace(authorized_operations=[*operations]))
        assert operations_of(asked, SERVERS) == operations

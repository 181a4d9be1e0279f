"""Who enforces, by the answers of a group's coordinator."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from broker.doctor import enforcer_checks
from broker.errors import BrokerUnreachableError
from wire.topics import ENFORCER_TOPIC

SETTINGS = {"bootstrap.servers": "kafka:9092"}


class Coordinator:
    """Refuses with each code in turn, then names one member."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def describe_consumer_groups(self, _names: list[str], **_: float) -> "dict[str, Future[Any]]":
        answer: Future[Any] = Future()
        if self.codes:
            answer.set_exception(KafkaException(KafkaError(self.codes.pop(0))))
        else:
            answer.set_result(SimpleNamespace(members=[SimpleNamespace(host="/10.0.0.7")]))
        return {ENFORCER_TOPIC: answer}


def test_a_cluster_that_has_no_coordinator_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    young = Coordinator(KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR)
    monkeypatch.setattr(enforcer_checks, "admin_client", lambda _: young)
    assert enforcer_checks.enforcers(SETTINGS) == ["10.0.0.7"]


def test_a_coordinator_that_never_comes_is_an_error_and_not_the_answer_that_nobody_enforces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enforcer_checks, "admin_client", lambda _: Coordinator(*[KafkaError.NOT_COORDINATOR] * 9))
    with pytest.raises(BrokerUnreachableError, match="NOT_COORDINATOR"):
        enforcer_checks.enforcers(SETTINGS, timeout_s=-1)

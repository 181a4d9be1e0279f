"""A request without an answer: the error names the broker that hangs, and blames neither rights nor all brokers."""

import socket
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from broker.errors import BrokerUnreachableError
from broker.kafka import silence
from broker.kafka.errors import from_kafka_python, reason_of
from broker.kafka.grants import Grants
from broker.kafka.topic_setup import TopicSetup, plan_topics

SERVERS = {"bootstrap.servers": "h:1,h:2,h:3"}
ANSWERING, SILENT = ["broker 1 (h:1)", "broker 3 (h:3)"], ["broker 2 (h:2)"]
JAVA = (
    "Request Request(processor=1, connectionId=10.0.0.1:9092-10.0.0.2:5-0, session=Session(User:bob,/10.0.0.2), "
    "listenerName=ListenerName(SASL), securityProtocol=SASL_PLAINTEXT, buffer=null, envelope=None) is not authorized."
)


class Silent:
    """An admin client whose requests time out."""

    config = SERVERS

    def __getattr__(self, _: str) -> Any:
        answer: Future[Any] = Future()
        answer.set_exception(KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, "timed out")))
        return lambda *_, **__: answer


@pytest.fixture(autouse=True)
def one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "silent_brokers", lambda _: (ANSWERING, SILENT))


def test_rights_are_not_blamed_for_a_broker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.kafka.grants.admin_client", lambda _: Silent())
    with pytest.raises(BrokerUnreachableError) as raised:
        Grants(SERVERS).plan("User:x")
    assert str(raised.value) == (
        "can't read the ACLs of User:x (timed out): broker 2 (h:2) does not answer, but broker 1 (h:1), "
        "broker 3 (h:3) do. Look whether it hangs (its log, jstack), restart it, and try again"
    )


def test_topics_that_can_t_be_deleted_are_told_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deleting(Silent):
        def delete_topics(self, names: list[str], **_: object) -> dict[str, Future[Any]]:
            return {names[0]: self.no_such_method()}

    monkeypatch.setattr("broker.kafka.topic_setup.admin_client", lambda _: Deleting())
    with pytest.raises(BrokerUnreachableError, match=r"broker 2 \(h:2\) does not answer, but broker 1"):
        TopicSetup(SERVERS).delete(plan_topics()[0].name)


def test_a_broker_that_accepts_connections_and_says_nothing_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(silence, "_ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        address = f"127.0.0.1:{hung.getsockname()[1]}"
        assert silence.silent_brokers({"bootstrap.servers": address}) == ([], [address])


def test_nobody_reads_java_s_description_of_a_request() -> None:
    refused = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, JAVA))
    assert reason_of(refused) == "this request is not authorized."
    assert "processor=" not in str(from_kafka_python(OSError(JAVA), "h:1"))

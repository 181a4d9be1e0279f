from types import SimpleNamespace
from typing import Any, Literal

import pytest

from broker.errors import ClusterRequestError
from broker.kafka import client
from broker.kafka.acls import Acl, AclResource, Acls
from broker.kafka.config import KafkaConfig

SECURITY_DISABLED, NO_RIGHT = 54, 31
TOPICS = AclResource.TOPIC


class Broker:
    """A stand-in for the library's client, with ACLs of one topic in Kafka's codes."""

    def __init__(self) -> None:
        self.pattern = 3
        self.entries: list[Any] = []
        self.error_code = 0

    def ask(self, request: Any, _node_id: int | None = None) -> Any:
        resource = SimpleNamespace(resource_name="t", pattern_type=self.pattern, acls=self.entries)
        found = [resource] if request.resource_type_filter == TOPICS and self.entries else []
        return SimpleNamespace(error_code=self.error_code, error_message=None, resources=found)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    twin = Broker()
    monkeypatch.setattr(client, "RawAdmin", lambda **_: twin)
    return twin


@pytest.fixture
def acls(broker: Broker) -> Acls:
    return Acls(client.KafkaAdmin(KafkaConfig.load("nowhere:1")))


@pytest.mark.parametrize(("pattern_code", "pattern"), [(3, "literal"), (4, "prefixed")])
@pytest.mark.parametrize(("operation_code", "operation"), [(2, "all"), (4, "write"), (3, "other"), (12, "other")])
@pytest.mark.parametrize(("permission_code", "permission"), [(2, "deny"), (3, "allow")])
def test_each_acl_is_read_by_kafka_s_codes(
    broker: Broker,
    acls: Acls,
    pattern_code: int,
    pattern: str,
    operation_code: int,
    operation: str,
    permission_code: int,
    permission: Literal["allow", "deny"],
) -> None:
    entry = {"principal": "User:a", "host": "10.0.0.5", "operation": operation_code, "permission_type": permission_code}
    broker.pattern, broker.entries = pattern_code, [SimpleNamespace(**entry)]

    assert acls.for_writers() == {Acl(TOPICS, "t", "User:a", operation, permission, "10.0.0.5", pattern)}


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(SECURITY_DISABLED, "start them with an authorizer"), (NO_RIGHT, "grant this user DESCRIBE on the cluster")],
)
def test_brokers_that_show_no_acls_are_told_with_the_remedy(broker: Broker, acls: Acls, code: int, remedy: str) -> None:
    broker.error_code = code
    with pytest.raises(ClusterRequestError, match=remedy):
        acls.for_writers()

import ast
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    ClusterAuthorizationFailedError,
    NodeNotReadyError,
    NotControllerError,
    TopicAuthorizationFailedError,
)

from broker.errors import BrokerError, BrokerUnreachableError, RequestNotAllowedError, RequestRefusedError
from broker.kafka import client
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.producers import ProducersAdmin

ROOT = Path(client.__file__).parents[2]
PINNED = "3.0.12"
SETTINGS = KafkaConfig.load("kafka:9092")


def private_names(path: Path) -> set[str]:
    """Private names of kafka-python's admin client that a file uses."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return used & {"_manager", "_net", "_closed"}


def test_one_file_uses_private_names_of_the_library_as_they_are_in_the_pinned_version() -> None:
    assert version("kafka-python") == PINNED
    files = [path for path in (ROOT / "broker").rglob("*.py") if private_names(path) and path.parent.name == "kafka"]
    assert files == [Path(client.__file__)]
    assert {"_manager", "_net", "_closed"} <= {*KafkaAdminClient.__init__.__code__.co_names}


class Cluster:
    """A stand-in for the library's client."""

    made = 0

    def __init__(self, **_: Any) -> None:
        Cluster.made += 1

    def close(self) -> None: ...

    def describe_cluster(self) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return {"brokers": brokers}


failures: list[Exception] = []
brokers: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    failures.clear()
    monkeypatch.setattr(Cluster, "made", 0)
    if "listener" not in request.node.name:
        monkeypatch.setattr(client, "RawAdmin", Cluster)


def test_brokers_that_are_down_are_left_out() -> None:
    brokers[:] = [{"broker_id": 3, "is_fenced": False}, {"broker_id": 2, "is_fenced": True}, {"broker_id": 1}]
    assert KafkaAdmin(SETTINGS).brokers() == [1, 3]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (NodeNotReadyError(), BrokerUnreachableError),
        (OSError("gone"), BrokerUnreachableError),
        (NotControllerError(), BrokerUnreachableError),
        (TopicAuthorizationFailedError(), RequestRefusedError),
        (ClusterAuthorizationFailedError(), RequestNotAllowedError),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_each_failure_is_one_of_ours_and_the_client_stays(failure: Exception, error: type[BrokerError]) -> None:
    admin = KafkaAdmin(SETTINGS)
    failures[:] = [failure]
    with pytest.raises(error):
        admin.brokers()
    admin.brokers()
    assert Cluster.made == 1


def test_a_listener_that_does_not_speak_our_protocol_is_given_up_long_before_a_long_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a server that takes connections, and requests that may take a minute
    limits: dict[str, Any] = {}

    def connect(**settings: Any) -> None:
        limits.update(settings)
        raise TimeoutError

    monkeypatch.setattr(client, "RawAdmin", connect)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        with pytest.raises(BrokerUnreachableError, match=address):
            ProducersAdmin(KafkaConfig.load(address))

    assert (limits["bootstrap_timeout_ms"], limits["request_timeout_ms"]) == (15_000, 60_000)

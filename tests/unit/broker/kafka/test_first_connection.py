"""How long a client of brokers that do not answer waits."""

import socket
from typing import Any

import pytest

from broker.errors import BrokerUnreachableError
from broker.kafka import cluster_admin
from broker.kafka.producers_admin import ProducersAdmin


def test_a_listener_that_does_not_speak_our_protocol_is_given_up_long_before_a_long_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a server that takes connections, and requests that may take a minute
    limits: dict[str, Any] = {}

    def connect(**settings: Any) -> None:
        limits.update(settings)
        raise TimeoutError

    monkeypatch.setattr(cluster_admin, "RawAdmin", connect)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        with pytest.raises(BrokerUnreachableError, match=address):
            ProducersAdmin({"bootstrap_servers": [address]})

    assert (limits["bootstrap_timeout_ms"], limits["request_timeout_ms"]) == (15_000, 60_000)

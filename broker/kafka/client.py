"""An admin client for requests that librdkafka lacks or parses too strictly. It wraps kafka-python's client."""

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, NodeNotReadyError
from typing_extensions import Self

from broker.closing import Closing
from broker.errors import BrokerError, BrokerUnreachableError, RequestNotAllowedError, RequestRefusedError
from broker.kafka.config import KafkaConfig
from broker.kafka.errors import from_kafka_python, without_java
from broker.kafka.silence import found_silent, silent_brokers
from broker.kafka.topics import admin_client

TIMEOUT_MS = 15_000

_DEFAULT_PORT = "9092"
_LOGIN_S = 5.0
_ATTEMPTS = 6
_RETRY_S = 1.0
_THROTTLED_S = 3.0
"""Brokers throttle a request for less than this: at most a quota window, which is 1 s by default."""
_PAUSE_S = 0.05
_Answer = TypeVar("_Answer")


class RawAdmin(KafkaAdminClient):
    """kafka-python's admin client, with a method that sends any request."""

    def __init__(self, **settings: Any) -> None:
        """Connect. After a failure, close the client. Otherwise, the library would leak a thread."""
        _probe(settings["bootstrap_servers"])
        try:
            super().__init__(**settings)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False
                self.close()
            raise

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        """Send a request to the given node or to any node. Return the response."""
        return self._manager.run(self._send, request, node_id)

    async def _send(self, request: Any, node_id: int | None) -> Any:
        give_up_at = time.monotonic() + _THROTTLED_S
        while True:
            try:
                return await self._manager.send(request, node_id)
            except NodeNotReadyError:
                # While this user is throttled, the library refuses to send.
                if time.monotonic() > give_up_at:
                    raise
                await self._net.sleep(_PAUSE_S)


class KafkaAdmin(Closing):
    """A client that connects at the first request.

    All requests raise BrokerUnreachableError if no broker answers, RequestNotAllowedError if a right is missing, and
    RequestRefusedError if Kafka refuses for another reason.
    """

    def __init__(self, kafka: KafkaConfig, timeout_ms: int = TIMEOUT_MS, **more: object) -> None:
        # A broker that does not answer the first connection within TIMEOUT_MS does not answer later, either.
        limits = {"request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": min(timeout_ms, TIMEOUT_MS)}
        self._kafka = kafka
        self._settings: dict[str, Any] = {"client_id": "pid-quota", **kafka.kafka_python(), **limits, **more}
        self._client: RawAdmin | None = None

    def connect(self) -> Self:
        """Connect now."""
        self.call(lambda _: None)
        return self

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def call(self, request: Callable[[RawAdmin], _Answer]) -> _Answer:
        """Call `request` with the connected client."""
        try:
            if self._client is None:
                self._client = RawAdmin(**self._settings)
            return request(self._client)
        except (KafkaError, OSError) as error:
            if self._client is None and "sasl_mechanism" in self._settings:
                self._require_login()
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> BrokerError:
        servers = self._kafka.settings["bootstrap.servers"]
        found = from_kafka_python(error, servers)
        if self._client is None or "," not in servers or not isinstance(found, BrokerUnreachableError):
            return found
        # The client has connected, so a broker has answered.
        reason = without_java(f"{type(error).__name__}: {error}")
        return found_silent(f"a request failed ({reason})", servers, silent_brokers(self._kafka.client()))

    def _require_login(self) -> None:
        """Raise LoginRefusedError if brokers refuse the login. kafka-python reports only a lost connection."""
        with suppress(BrokerUnreachableError):
            admin_client(self._kafka.client()).metadata(_LOGIN_S)

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        """Send a request; see `RawAdmin.ask`. The response may contain errors."""
        return self.call(lambda client: client.ask(request, node_id))

    def brokers(self) -> list[int]:
        """Return the ids of brokers that are up. A killed broker counts as up for 9 s."""
        cluster = self.call(lambda client: client.describe_cluster())
        return sorted(each["broker_id"] for each in cluster["brokers"] if not each.get("is_fenced"))

    def broker_settings(self, broker_id: int) -> Mapping[str, Mapping[str, Any]]:
        """Return a broker's settings as kafka-python describes them. Passwords and plugins' values are None."""
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        found = self.call(lambda client: client.describe_configs([resource], config_filter="all"))
        settings: Mapping[str, Mapping[str, Any]] = found["broker"][str(broker_id)]
        return settings

    def require_setting(self, broker_id: int, name: str) -> Mapping[str, Any]:
        """Return a setting as kafka-python describes it. Raises RequestNotAllowedError if the broker hides it."""
        found = self.broker_settings(broker_id)
        if name not in found:
            msg = f"broker {broker_id} does not show {name}: grant DESCRIBE_CONFIGS on the cluster"
            raise RequestNotAllowedError(msg)
        return found[name]

    def set_broker_setting(self, broker_id: int, name: str, value: str) -> None:
        """Change a dynamic setting of one broker."""
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id), {name: (AlterConfigOp.SET, value)})
        answer = self.call(lambda client: client.alter_configs([resource], raise_on_unknown=False, incremental=True))
        outcome = answer["broker"][str(broker_id)]
        if outcome != "OK":
            msg = (
                f"broker {broker_id} did not set {name}={value} ({outcome}): grant ALTER_CONFIGS on the cluster, and "
                f"check that the broker was started with the jar on its class path"
            )
            raise RequestRefusedError(msg)


def with_retries(ask: Callable[[], _Answer], wait: Callable[[float], None] = time.sleep) -> _Answer:
    """Call `ask`. Retry for 5 s, because the client may choose a broker that has just died."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return ask()
        except BrokerUnreachableError:
            wait(_RETRY_S)
    return ask()


def _probe(servers: list[str]) -> None:
    """Raise OSError if no server listens. kafka-python would retry forever and leak a socket each time."""
    for server in servers:
        host, _, port = server.strip().rpartition(":") if ":" in server else (server.strip(), "", _DEFAULT_PORT)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_MS / 1000):
                return
        except (OSError, ValueError) as error:
            if server == servers[-1]:
                raise OSError(str(error)) from error

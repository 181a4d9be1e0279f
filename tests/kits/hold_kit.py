"""Helpers of the tests under `pidquota.HoldAuthorizer`: bindings by hand, requests, client libraries."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer
from kafka.errors import KafkaConnectionError
from kafka.protocol.producer import InitProducerIdRequest

from broker.kafka.client import RawAdmin
from broker.kafka.config import KafkaConfig
from broker.local.local_broker import LocalBroker
from jvm.java import find_java
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import wait_until
from wire.holds import HoldBinding, hold_binding

LOADING = 14
"""COORDINATOR_LOAD_IN_PROGRESS."""
_CLOCKS_DIFFER_S = 0.25
"""Two processes of a virtual machine read clocks that differ: by 3 ms, seen."""
_BUSY_S = 30.0
"""How late a busy machine may be."""
JAVA_CLIENT = Path(__file__).parents[1] / "broker" / "ProduceWhileHeld.java"


def now_ms() -> int:
    return round(time.time() * 1000)


def binding(
    name: str,
    principal: str = "User:mallory",
    host: str = "*",
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    operation: AclOperation = AclOperation.WRITE,
    permission: AclPermissionType = AclPermissionType.DENY,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def hold(seconds: float, principal: str = "User:mallory", host: str = "*") -> AclBinding:
    """One that was set by hand."""
    return binding(HoldBinding("", now_ms() + round(1000 * seconds)).name, principal, host)


@contextmanager
def bound(broker: LocalBroker | LocalCluster, *bindings: AclBinding) -> Iterator[None]:
    """ACLs that are there while the block runs."""
    admin = AdminClient({**broker.admin_config()})
    for created in admin.create_acls(list(bindings)).values():
        created.result()
    # A broker learns what the controller has taken a moment later.
    wait_until(lambda: all(_is_there(admin, each) for each in bindings), "they are in force")
    try:
        yield
    finally:
        unbind(broker, *bindings)


def unbind(broker: LocalBroker | LocalCluster, *bindings: AclBinding) -> None:
    admin = AdminClient({**broker.admin_config()})
    for deleted in admin.delete_acls([_filter(each) for each in bindings]).values():
        deleted.result()
    wait_until(lambda: not any(_is_there(admin, each) for each in bindings), "they are gone")


def _is_there(admin: AdminClient, binding: AclBinding) -> bool:
    return bool(admin.describe_acls(_filter(binding)).result())


def _filter(binding: AclBinding) -> AclBindingFilter:
    names = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    return AclBindingFilter(*(getattr(binding, name) for name in names))


def end_s(held: AclBinding) -> float:
    """When a hold ends, in seconds since the epoch."""
    found = hold_binding("", held.name)
    assert found is not None
    return found.until_ms / 1000


def is_at_end(at_s: float, until_s: float) -> bool:
    """Whether what happened at `at_s` waited for the end of a hold, and not much longer."""
    return -_CLOCKS_DIFFER_S <= at_s - until_s <= _BUSY_S


class Asker:
    """Asks for producer ids as a user, request by request, over one connection."""

    def __init__(self, broker: LocalBroker | LocalCluster, user: str | None = "mallory") -> None:
        settings = broker.admin_config() if user is None else broker.client_config(user)
        servers = settings.pop("bootstrap.servers")
        self._admin = RawAdmin(**KafkaConfig({**settings, "bootstrap.servers": servers}).kafka_python())

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def error(self, node_id: int | None = None) -> int:
        """The error code of an INIT_PRODUCER_ID without a transactional id."""
        # kafka-python keeps the version that it chose for a broker in the request.
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        answer: Any = self._admin.ask(request, node_id)
        assert (answer.producer_id >= 0) == (answer.error_code == 0)
        return int(answer.error_code)

    def gets_one(self) -> bool:
        """Whether an id was given; a broker that has just begun may also close the connection."""
        try:
            return self.error() == 0
        except KafkaConnectionError:
            return False


def send_by_confluent_kafka(settings: dict[str, str], topic: str, value: str) -> None:
    producer = Producer({**settings, "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def send_by_kafka_python(settings: dict[str, str], topic: str, value: str) -> None:
    producer = KafkaProducer(**KafkaConfig(settings).kafka_python(), enable_idempotence=True)
    try:
        producer.send(topic, value.encode()).get(60)
    finally:
        producer.close()


class JavaProducers:
    """Kafka's own client: producers that send a message each."""

    def __init__(self, classpath: str, settings: dict[str, str], topic: str, count: int) -> None:
        names = ("bootstrap.servers", "sasl.username", "sasl.password")
        command = [find_java(), "-cp", classpath, str(JAVA_CLIENT), *(settings[name] for name in names), topic]
        self._process = subprocess.Popen(
            [*command, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._count = count
        assert self._process.stdin
        assert self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout
        assert self._out.readline() == "ready\n"

    def start(self) -> None:
        self._in.write("\n")
        self._in.flush()

    def ends(self) -> list[float]:
        """When each message was delivered, in seconds since the epoch."""
        try:
            return [int(self._out.readline()) / 1000 for _ in range(self._count)]
        finally:
            self._process.kill()
            self._process.wait()
            self._in.close()
            self._out.close()


class PythonProducers:
    """Producers of a library that send a message each."""

    def __init__(self, send: Callable[..., None], settings: dict[str, str], topic: str, count: int) -> None:
        self._send, self._arguments, self._count = send, (settings, topic, "waited"), count
        self._waiting: list[Waiting] = []

    def start(self) -> None:
        self._waiting = [Waiting(self._send, *self._arguments) for _ in range(self._count)]

    def ends(self) -> list[float]:
        return [each.end() for each in self._waiting]


class Waiting(threading.Thread):
    """A call in a thread of its own, and when it was over."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        super().__init__()
        self._call, self._arguments = call, arguments
        self.ended_at: float | None = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._call(*self._arguments)
        except BaseException as error:
            self._error = error
        self.ended_at = time.time()

    def end(self) -> float:
        """When it was over, in seconds since the epoch; raises what it raised."""
        self.join(90)
        assert self.ended_at is not None, "it still waits"
        if self._error:
            raise self._error
        return self.ended_at

"""Helpers of the tests under the plugin's authorizer: records of holds, reports, requests, clients."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaConnectionError
from kafka.protocol.producer import InitProducerIdRequest

from broker.kafka.client import RawAdmin
from broker.kafka.config import KafkaConfig
from broker.local.local_broker import LocalBroker
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import LIMIT_S, wait_for_report
from wire.holds import EVERYBODY, Hold, Release, hold_key, release_key
from wire.plugin_reports import HeldPrincipal, HoldReport
from wire.topics import HOLDS

LOADING = 14
"""COORDINATOR_LOAD_IN_PROGRESS."""
MALLORY = "User:mallory"
_CLOCKS_DIFFER_S = 0.25
"""Two processes of a virtual machine read clocks that differ: by 3 ms, seen."""
_BUSY_S = 30.0
"""How late a busy machine may be."""


def now_ms() -> int:
    return round(time.time() * 1000)


def is_at_end(at_s: float, until_s: float) -> bool:
    """Whether what happened at `at_s` waited for the end of a hold, and not much longer."""
    return -_CLOCKS_DIFFER_S <= at_s - until_s <= _BUSY_S


class HoldWriter:
    """Writes records of the topic of holds, as a person or a stream does. Each call returns the record's offset."""

    def __init__(self, broker: LocalBroker | LocalCluster, **settings: str) -> None:
        self._broker = broker
        # Without a batch per record: the fewer requests, the sooner.
        self._producer = Producer({**broker.admin_config(), "linger.ms": 0, "log_level": 0, **settings})
        admin = AdminClient({**broker.admin_config(), "log_level": 0})
        self.cluster_id = str(admin.list_topics(timeout=LIMIT_S).cluster_id)
        self._keys = set[bytes]()
        self._appended_ms: dict[int, float] = {}

    def __enter__(self) -> "HoldWriter":
        return self

    def __exit__(self, *_: object) -> None:
        """End all that was written, and wait until no broker holds anybody."""
        if self._keys:
            self.wait_for(self.write_many((key, None) for key in tuple(self._keys)))

    def write(self, key: bytes, value: bytes | None) -> int:
        return self.write_many([(key, value)])

    def write_many(self, records: Iterable[tuple[bytes, bytes | None]]) -> int:
        sent: list[Message] = []

        def delivered(error: Any, message: Message) -> None:
            assert error is None, error
            sent.append(message)

        for key, value in records:
            self._producer.produce(HOLDS, value, key, on_delivery=delivered)
            self._keys.add(key)
        assert self._producer.flush(LIMIT_S) == 0
        offset = int(sent[-1].offset() or 0)
        self._appended_ms[offset] = sent[-1].timestamp()[1]
        return offset

    def hold(self, seconds: float = 300.0, principal: str = MALLORY, **fields: Any) -> int:
        return self.write(hold_key(principal), self.value(seconds, **fields))

    def value(self, seconds: float = 300.0, **fields: Any) -> bytes:
        """The value of a hold, in which `fields` replace the usual ones, sound or not."""
        hold_ms = round(1000 * seconds)
        usual = Hold(cluster_id=self.cluster_id, hold_ms=hold_ms, until_ms=now_ms() + hold_ms, writer="a test")
        return msgspec.json.encode(msgspec.to_builtins(usual) | {"version": 1} | fields)

    def remove(self, principal: str = MALLORY) -> int:
        return self.write(hold_key(principal), None)

    def release(self, seconds: float = 300.0, principal: str = EVERYBODY) -> int:
        return self.write(release_key(principal), self.release_value(seconds))

    def release_value(self, seconds: float) -> bytes:
        return msgspec.json.encode(Release(cluster_id=self.cluster_id, release_ms=round(1000 * seconds), by="a test"))

    def end_release(self, principal: str = EVERYBODY) -> int:
        return self.write(release_key(principal), None)

    def wait_for(self, offset: int, broker_id: int = 1) -> HoldReport:
        """The first report of a broker that has obeyed the record."""
        # A topic that was made anew has the same offsets again.
        since_ms = self._appended_ms[offset] - 1000 * _CLOCKS_DIFFER_S

        def is_wanted(report: HoldReport) -> bool:
            return report.offset >= offset and report.broker_id == broker_id and report.timestamp_ms >= since_ms

        return wait_for_report(self._broker, HoldReport, is_wanted)


@contextmanager
def holding_broker(folder: Path, jars: Path, window_s: int) -> Iterator[LocalBroker]:
    """Run a broker with the authorizer and a short window."""
    times: dict[str, Any] = {"pid_quota_window_ms": 1000 * window_s, "pid_quota_repeat_ms": 1000 * window_s // 20}
    with LocalBroker(folder, jars=jars, holds=True, **times) as running:
        running.wait_for_plugin()
        yield running


@contextmanager
def held(broker: LocalBroker | LocalCluster, principal: str = MALLORY, **fields: Any) -> Iterator[HoldWriter]:
    """A hold that is in force on broker 1, or on all of a cluster, while the block runs."""
    with HoldWriter(broker) as writer:
        offset = writer.hold(principal=principal, **fields)
        for broker_id in broker.running if isinstance(broker, LocalCluster) else (broker.broker_id,):
            writer.wait_for(offset, broker_id)
        yield writer


def wait_for_hold(broker: LocalBroker, principal: str = MALLORY, *, not_by: str = "") -> HeldPrincipal:
    """Return a hold on a principal, by any writer but one, once the broker reports that it is in force."""

    def is_wanted(report: HoldReport) -> bool:
        found = in_force(report).get(principal)
        return found is not None and found.writer != not_by

    return in_force(wait_for_report(broker, HoldReport, is_wanted))[principal]


def in_force(report: HoldReport) -> dict[str, HeldPrincipal]:
    """The holds in force in a report, by principal."""
    return {each.principal: each for each in report.held if not each.ended}


def end_s(report: HoldReport) -> float:
    """When the hold on mallory ends, in seconds since the epoch."""
    return in_force(report)[MALLORY].ends_ms / 1000


class Steady:
    """One producer that stays; each message is waited for."""

    def __init__(self, settings: dict[str, str], topic: str, client_id: str) -> None:
        self.throttles_s: list[float] = []
        self._topic = topic
        more = {"client.id": client_id, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({**settings, **more, "throttle_cb": self._throttled})

    def _throttled(self, event: Any) -> None:
        if event.throttle_time:
            self.throttles_s.append(event.throttle_time)

    def send(self) -> float:
        """Returns the seconds until the broker had it."""
        start = time.monotonic()
        self._producer.produce(self._topic, b"one message")
        assert self._producer.flush(30) == 0
        return time.monotonic() - start


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


class Churn:
    """Threads that make a producer per message until they are told to stop."""

    def __init__(self, settings: dict[str, str], topic: str, threads: int) -> None:
        self._settings = {**settings, "enable.idempotence": True, "log_level": 0, "linger.ms": 0}
        self._topic = topic
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> "Churn":
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._is_over.is_set():
            producer = Producer(self._settings)
            producer.produce(self._topic, b"value")
            while producer.flush(0.2) and not self._is_over.is_set():
                pass
            producer.purge()

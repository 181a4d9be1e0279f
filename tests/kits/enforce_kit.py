"""Helpers of the tests that run `pid-quota enforce` against a real broker: decisions by hand, a process, clients."""

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from deltalake import write_deltalake

from broker.enforcement.lock import ensure_enforcer_topic
from broker.enforcement.model import EnforcementRecord, LeaseRecord, ReleaseOrder
from broker.enforcement.store.lease_topic import LeaseTopic
from broker.enforcement.store.tables import ActionTable
from broker.kafka.quota_entity import QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.local.local_broker import LocalBroker
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.path_tables import table_path
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import wait_until
from tests.kits.following_kit import Following

_DAYS_MS = 2 * 86_400_000


def decide(tables: Path, principal: str, seconds: float = 60.0, **values: Any) -> datetime:
    """Write a THROTTLE as the stream would, decided now; returns its `throttled_until`."""
    now = datetime.now(timezone.utc)
    until = now + timedelta(seconds=seconds)
    row = dict.fromkeys(TABLES["throttle_decisions"].schema.names) | {
        "decision_id": f"{principal}/{now.timestamp()}",
        "principal": principal,
        "action": "THROTTLE",
        "decided_at": now,
        "throttled_until": until,
        "throttle_time_ms": round(seconds * 1000),
        "quota": 100.0,
        "refused_pids": 20,
        "client_ids": [("rdkafka", 20)],
    }
    assert set(values) <= set(row)
    rows = pa.Table.from_pylist([row | values], schema=TABLES["throttle_decisions"].schema)
    write_deltalake(table_path(str(tables), "throttle_decisions"), rows, mode="append")
    return until


class EnforcerProcess:
    """`pid-quota enforce --json` as a process, so that it can be killed."""

    def __init__(
        self, broker: LocalBroker | LocalCluster, tables: Path, *arguments: str, program: Sequence[str] = ("-m", "jobs")
    ) -> None:
        self._arguments = ["enforce", "--json", "--tables", str(tables), *arguments]
        self._arguments += ["--bootstrap-servers", broker.admin_servers]
        self._program = program
        self._process: Following | None = None
        self._is_running = False

    def connect_to(self, servers: str) -> None:
        """Set another listener than the one without a password, before the start."""
        self._arguments[-1] = servers

    def start(self) -> None:
        self._process, self._is_running = Following(*self._arguments, program=self._program), True

    @property
    def notices(self) -> list[dict[str, Any]]:
        return [] if self._process is None else [json.loads(line) for line in self._process.lines]

    def notices_of(self, action: str, why: str = "") -> list[dict[str, Any]]:
        return [notice for notice in self.notices if notice["action"] == action and why in notice["why"]]

    def wait_for(self, action: str, why: str = "") -> None:
        """Wait for a notice. Fail if the enforcer ends without it."""

        def is_there() -> bool:
            ended = self._process is None or self._process.has_ended()
            found = bool(self.notices_of(action, why))
            assert found or not ended, f"the enforcer has ended: {self.end(by=0)}"
            return found

        try:
            wait_until(is_there, f"{action} {why}")
        except AssertionError as error:
            msg = f"{error}: {self.notices}"
            raise AssertionError(msg) from error

    def wait(self) -> tuple[int, str]:
        """Wait until it ends by itself; return its exit code and standard error."""
        return self.end(by=0)

    def end(self, by: int = signal.SIGTERM) -> tuple[int, str]:
        """Send it a signal, wait for its end, and return its exit code and standard error."""
        if self._process is None or not self._is_running:
            return 0, ""
        self._is_running = False
        try:
            return self._process.end(by) if by else self._process.wait()
        finally:
            self._process.close()


@contextmanager
def enforcing(
    broker: LocalBroker | LocalCluster, tables: Path, *arguments: str, lock: bool = True
) -> Iterator[EnforcerProcess]:
    """Run an enforcer, and wait for its lock if `lock`. It must end without an error."""
    enforcer = EnforcerProcess(broker, tables, *arguments)
    enforcer.start()
    try:
        if lock:
            enforcer.wait_for("lock", "holding")
        yield enforcer
    finally:
        code, errors = enforcer.end()
    assert (code, errors) == (0, "")


@contextmanager
def killed_after(
    broker: LocalBroker | LocalCluster, tables: Path, *arguments: str, program: Sequence[str] = ("-m", "jobs")
) -> Iterator[EnforcerProcess]:
    """Run an enforcer that holds the lock, and kill it when the block ends, unless it has ended before."""
    enforcer = EnforcerProcess(broker, tables, *arguments, program=program)
    enforcer.start()
    try:
        enforcer.wait_for("lock", "holding")
        yield enforcer
    finally:
        enforcer.end(signal.SIGKILL)


def release(broker: LocalBroker, tables: Path, *arguments: str) -> None:
    switch = EnforcerProcess(broker, tables, *arguments)
    switch.start()
    assert switch.wait() == (0, "")


def quotas_of(broker: LocalBroker | LocalCluster) -> dict[QuotaEntity, dict[str, float]]:
    with ClientQuotas({"bootstrap_servers": broker.admin_servers.split(",")}) as quotas:
        return quotas.describe_all()


def end_orders(broker: LocalBroker) -> None:
    """Lift what `--release…` of earlier tests has ordered, also for a clock that is set back a day."""
    ensure_enforcer_topic(broker.admin_config())
    with LeaseTopic(broker.admin_config()) as topic:
        now_ms = round(time.time() * 1000)
        orders = [each for each in topic.read() if isinstance(each, ReleaseOrder) and each.until_ms > now_ms]
        topic.append([replace(order, recorded_at_ms=now_ms, until_ms=now_ms - _DAYS_MS) for order in orders])


def actions(tables: Path) -> list[str]:
    return [_state(record) for record in ActionTable(open_store(str(tables))).read()]


def _state(record: EnforcementRecord) -> str:
    if isinstance(record, LeaseRecord):
        return record.lease.state
    return "release" if isinstance(record, ReleaseOrder) else "alert"


class Careless(threading.Thread):
    """A new producer for every message, until the block ends."""

    def __init__(self, settings: dict[str, str], topic: str, client_id: str) -> None:
        super().__init__()
        self._settings = {**settings, "client.id": client_id, "enable.idempotence": True, "log_level": 0}
        self._topic, self._end = topic, threading.Event()
        self.producers = 0
        self.throttles_s: list[float] = []

    def run(self) -> None:
        while not self._end.is_set():
            producer = Producer({**self._settings, "throttle_cb": self._throttled})
            producer.produce(self._topic, b"one message")
            producer.flush(30)
            self.producers += 1

    def _throttled(self, event: Any) -> None:
        if event.throttle_time:
            self.throttles_s.append(event.throttle_time)

    def __enter__(self) -> "Careless":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()

    def rate(self, seconds: float) -> float:
        """Producers made per second, over the next so many."""
        before, start = self.producers, time.monotonic()
        self._end.wait(seconds)
        return (self.producers - before) / (time.monotonic() - start)


class Steady:
    """One producer that stays; each message is waited for."""

    def __init__(self, settings: dict[str, str], topic: str, client_id: str) -> None:
        self.throttles_s: list[float] = []
        self._topic = topic
        self._producer = Producer(
            {
                **settings,
                "client.id": client_id,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
                "throttle_cb": self._throttled,
            }
        )

    def _throttled(self, event: Any) -> None:
        if event.throttle_time:
            self.throttles_s.append(event.throttle_time)

    def send(self) -> float:
        """Returns the seconds until the broker had it."""
        start = time.monotonic()
        self._producer.produce(self._topic, b"one message")
        assert self._producer.flush(30) == 0
        return time.monotonic() - start

"""Labelled clients, one for each way to use producers, run against a real broker."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaException, Producer
from deltalake import write_deltalake
from init_kit import InitClient
from kafka import KafkaProducer
from kafka.net.inet import KafkaNetSocket

from broker.local import LocalBroker
from quota.churn import Churn
from quota.init_producer_id import InitRequest
from streaming.tables import TABLES, create_missing, table_path

_FLUSH_S = 20.0
Run = Callable[["Place", str], None]


@dataclass(frozen=True)
class Place:
    """Where clients run: settings of their user, an address without users, a topic, and when it is over."""

    settings: Mapping[str, str]
    plain_address: str
    topic: str
    stop: threading.Event
    seconds: float


@dataclass(frozen=True)
class Client:
    """A client of which it is known what it does."""

    name: str
    kind: Churn
    run: Run = field(repr=False)
    can_be_told: bool = True
    """Whether what it does shows in what the tap reads."""


def labelled_clients() -> list[Client]:
    """All of them; a name is also the user's."""
    made = [
        *(("message", Churn.PER_MESSAGE, per_message(gap_s)) for gap_s in (0.1, 0.2, 0.3, 0.5, 0.8, 1.1, 1.5)),
        *(("batch", Churn.PER_MESSAGE, per_batch(mean_s)) for mean_s in (0.7, 1.2, 1.8, 2.2)),
        ("numbered", Churn.PER_MESSAGE, numbered(1.0)),
        ("numbered", Churn.PER_MESSAGE, numbered(2.7)),
        *(("crash", Churn.RESTART_LOOP, restarts(delay_s)) for delay_s in (2.4, 2.8, 3.3, 4.0, 5.0)),
        *(("backoff", Churn.RESTART_LOOP, restarts(delay_s, factor=2.0)) for delay_s in (0.7, 1.0, 1.3)),
        *(("refused", Churn.ON_ERROR, in_vain(gap_s)) for gap_s in (0.5, 1.0, 2.0, 3.0)),
        *(("older", Churn.ON_ERROR, with_its_old_id(gap_s)) for gap_s in (0.6, 2.5)),
        *(("fenced", Churn.ON_ERROR, after_errors()) for _ in range(3)),
        *(("fleet", Churn.SCALE_OUT, fleet(first, hosts)) for first, hosts in ((10, 8), (30, 12), (60, 20))),
        *(("steady", Churn.HEALTHY, steady(count)) for count in (1, 2, 4)),
        *(("start", Churn.HEALTHY, steady(count)) for count in (12, 25)),
        *(("transactions", Churn.HEALTHY, transactions(instances)) for instances in (1, 12)),
    ]
    return [
        Client(f"{name}-{_letters(number)}", kind, run, can_be_told=name != "fenced")
        for number, (name, kind, run) in enumerate(made)
    ]


def run_all(clients: Sequence[Client], broker: LocalBroker, topic: str, seconds: float) -> None:
    """Run all clients side by side for so long, each as the user of its name."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(clients)) as pool:
        places = [Place(broker.client_config(one.name), broker.admin_servers, topic, stop, seconds) for one in clients]
        runs = [pool.submit(client.run, place, client.name) for client, place in zip(clients, places, strict=True)]
        stop.wait(seconds)
        stop.set()
        for run in runs:
            run.result()


def write_inits(tables: str, records: Sequence[Mapping[str, object]]) -> None:
    """Write records of the topic `producer-inits` as the stream does."""
    create_missing(tables)
    rows = [{**record, "answered_at": _time(record["timestamp_ms"]), "batch_id": 0} for record in records]
    named = [{"repeated": False, **row} for row in rows]
    table = pa.Table.from_pylist(named, schema=TABLES["producer_inits"].schema)
    write_deltalake(table_path(tables, "producer_inits"), table, mode="append")


# What they do


def per_message(gap_s: float) -> Run:
    """A new producer for each message."""

    def run(place: Place, name: str) -> None:
        while not place.stop.wait(gap_s):
            _send_one(place, name)

    return run


def per_batch(mean_s: float) -> Run:
    """A new producer for each piece of work, which comes when it comes."""

    def run(place: Place, name: str) -> None:
        rng = np.random.default_rng(round(mean_s * 1000))
        while not place.stop.wait(rng.exponential(mean_s)):
            _send_one(place, name)

    return run


def numbered(gap_s: float) -> Run:
    """As `per_message`, with the client ids that Java gives when there is none: they count up."""

    def run(place: Place, _name: str) -> None:
        number = 0
        while not place.stop.wait(gap_s):
            number += 1
            _send_one(place, f"producer-{number}")

    return run


def restarts(delay_s: float, factor: float = 1.0) -> Run:
    """A process that dies, and a supervisor that starts it again after a while."""

    def run(place: Place, name: str) -> None:
        options = {**place.settings, "client.id": name, "enable.idempotence": True, "log_level": 0}
        order = json.dumps([options, place.topic, delay_s, factor, place.seconds])
        command = [sys.executable, str(Path(__file__).with_name("restart_kit.py"))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as supervisor:
            supervisor.communicate(order)
        assert supervisor.returncode == 0

    return run


def after_errors() -> Run:
    """Transactions that take too long: fenced, the client starts over with another transactional id."""

    def run(place: Place, name: str) -> None:
        while not place.stop.is_set():
            settings = {"transactional.id": f"{name}-{uuid.uuid4()}", "transaction.timeout.ms": 1000, "log_level": 0}
            producer = Producer({**place.settings, "client.id": name, **settings})
            try:
                producer.init_transactions(_FLUSH_S)
                producer.begin_transaction()
                while not place.stop.wait(0.3):
                    producer.produce(place.topic, b"value")
                    producer.flush(_FLUSH_S)
            except KafkaException:
                # What the broker answered to a produce request stands in no line that the tap reads.
                continue

    return run


def with_its_old_id(gap_s: float) -> Run:
    """Asks naming the id it had, as some clients do after an error: by hand, not a real client."""

    def run(place: Place, name: str) -> None:
        with InitClient(place.plain_address, name) as client:
            had = client.ask_until_ready(InitRequest())
            while not place.stop.wait(gap_s):
                had = client.ask(InitRequest(None, had.producer_id, had.producer_epoch))

    return run


def in_vain(gap_s: float) -> Run:
    """Asks for a transaction timeout that the broker does not allow, and starts over with a new producer."""

    def run(place: Place, name: str) -> None:
        settings = {"transactional.id": name, "transaction.timeout.ms": 2_000_000, "log_level": 0}
        while not place.stop.wait(gap_s):
            producer = Producer({**place.settings, "client.id": name, **settings})
            try:
                producer.init_transactions(_FLUSH_S)
            except KafkaException:
                continue

    return run


def fleet(first: int, hosts: int) -> Run:
    """Machines that join one after the other, each with one producer: each has a loopback address of its own."""

    def run(place: Place, name: str) -> None:
        with ExitStack() as open_producers:
            for number in range(hosts):
                producer = KafkaProducer(
                    bootstrap_servers=place.settings["bootstrap.servers"],
                    security_protocol="SASL_PLAINTEXT",
                    sasl_mechanism="PLAIN",
                    sasl_plain_username=place.settings["sasl.username"],
                    sasl_plain_password=place.settings["sasl.password"],
                    client_id=name,
                    enable_idempotence=True,
                    proxy_url=f"from://127.0.0.{first + number}",
                )
                open_producers.callback(producer.close)
                producer.send(place.topic, b"value").get(_FLUSH_S)
                place.stop.wait(0.8 * place.seconds / hosts)
            place.stop.wait()

    return run


def steady(count: int) -> Run:
    """Producers that are made once and kept."""

    def run(place: Place, name: str) -> None:
        producers = [_producer(place, name) for _ in range(count)]
        while not place.stop.wait(1.0):
            for producer in producers:
                producer.produce(place.topic, b"value")
                producer.poll(0)
        for producer in producers:
            producer.flush(_FLUSH_S)

    return run


def transactions(instances: int) -> Run:
    """Instances of one transactional producer after each other, many transactions each: the same id all the time."""

    def run(place: Place, name: str) -> None:
        for _ in range(instances):
            producer = Producer({**place.settings, "client.id": name, "transactional.id": name, "log_level": 0})
            producer.init_transactions(_FLUSH_S)
            ends_at = time.monotonic() + place.seconds / instances
            while time.monotonic() < ends_at and not place.stop.wait(0.5):
                producer.begin_transaction()
                producer.produce(place.topic, b"value")
                producer.commit_transaction(_FLUSH_S)

    return run


class _FromAddress(KafkaNetSocket):
    """kafka-python's way to other sockets, by the scheme of `proxy_url`: one bound to an address of ours."""

    SCHEMES = ("from",)

    def __init__(self, url: str) -> None:
        self._address = url.partition("//")[2]

    def socket(self, *kind: int) -> object:
        made = super().socket(*kind)
        made.bind((self._address, 0))
        return made


def _producer(place: Place, client_id: str) -> Producer:
    return Producer({**place.settings, "client.id": client_id, "enable.idempotence": True, "log_level": 0})


def _send_one(place: Place, client_id: str) -> None:
    producer = _producer(place, client_id)
    producer.produce(place.topic, b"value")
    producer.flush(_FLUSH_S)


def _letters(number: int) -> str:
    return chr(ord("g") + number // 10) + chr(ord("g") + number % 10)


def _time(timestamp_ms: object) -> datetime:
    assert isinstance(timestamp_ms, int)
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=timezone.utc)

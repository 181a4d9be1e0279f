"""The demo's clients: alice keeps her producers open, and mallory creates a new producer for every message.

`python -m jobs.demo.clients` runs both clients against an existing broker (see `compose.yaml`).
"""

import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.kafka.topics import require_topic
from jobs.cli import run_command
from jobs.kafka_login import kafka_login
from jobs.options import BootstrapServers

ORDERS = "orders"
"""The topic that the demo's clients write to."""

_PARTITIONS = 3
_ALICE_PRODUCERS = 3
_ALICE_PAUSE_S = 0.1
_MALLORY_PRODUCERS = 10
_MALLORY_PAUSE_S = 0.05
_LOOK_S = 0.2
_FLUSH_S = 10.0
_TIMEOUT_MS = 15_000


@dataclass
class Traffic:
    """Counts of a client's producers and messages."""

    producers: int = 0
    delivered: int = 0
    failed: int = 0

    def __str__(self) -> str:
        return f"{self.delivered} messages with {self.producers} producers, {self.failed} failed"

    def count(self, error: KafkaError | None, _message: Message) -> None:
        """Count a delivery report."""
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1


class Clients:
    """The threads of alice and mallory, which run within a `with` block."""

    def __init__(self, alice: Mapping[str, str], mallory: Mapping[str, str], topic: str = ORDERS) -> None:
        self.alice, self.mallory = Traffic(), Traffic()
        self._stop = threading.Event()
        run = ((run_steady, alice, self.alice), (run_careless, mallory, self.mallory))
        # If Ctrl-C arrives just before the `with` block, `__exit__` does not run. Daemon threads end with the process.
        self._threads = [
            threading.Thread(target=each, args=(config, topic, self._stop, traffic), daemon=True)
            for each, config, traffic in run
        ]

    def __enter__(self) -> "Clients":
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()


def run_steady(config: Mapping[str, str], topic: str, stop: threading.Event, traffic: Traffic) -> None:
    """Keep three producers open, and send messages with them in turn."""
    producers = [_producer(config, f"alice-app-{number}", traffic) for number in range(_ALICE_PRODUCERS)]
    turn = 0
    while not stop.wait(_ALICE_PAUSE_S):
        _send(producers[turn % len(producers)], topic, traffic)
        turn += 1
    for producer in producers:
        producer.flush(_FLUSH_S)


def run_careless(config: Mapping[str, str], topic: str, stop: threading.Event, traffic: Traffic) -> None:
    """Create a producer for every message: the bug that quotas guard against. Ten producers run at a time."""
    while not stop.wait(_MALLORY_PAUSE_S):
        producers = [_producer(config, "mallory-batch", traffic) for _ in range(_MALLORY_PRODUCERS)]
        for producer in producers:
            _send(producer, topic, traffic)
        # Under a hold, messages stay in the producers, which wait for a producer id.
        while any(map(len, producers)) and not stop.is_set():
            for producer in producers:
                producer.flush(_LOOK_S)


def _producer(config: Mapping[str, str], client_id: str, traffic: Traffic) -> Producer:
    traffic.producers += 1
    settings: dict[str, Any] = {
        "message.timeout.ms": _TIMEOUT_MS,
        **config,
        "client.id": client_id,
        "enable.idempotence": True,
        "on_delivery": traffic.count,
        # Errors need no callback, because delivery reports count the messages that failed.
        "error_cb": lambda _error: None,
        # Otherwise, librdkafka would log lost connections into the live view.
        "log_level": 0,
    }
    return Producer(settings)


def _send(producer: Producer, topic: str, traffic: Traffic) -> None:
    try:
        producer.produce(topic, b"one order")
        producer.poll(0)
    except (BufferError, KafkaException):
        traffic.failed += 1


def create_topic(settings: Mapping[str, str], topic: str = ORDERS) -> None:
    """Create a topic for the clients unless it exists, or this user may not."""
    # Keep a reference: the future never completes after the client is garbage-collected.
    admin = AdminClient(dict(settings) | {"log_level": 0})
    with suppress(KafkaException):
        admin.create_topics([NewTopic(topic, num_partitions=_PARTITIONS)])[topic].result()


def demo_clients(
    bootstrap_servers: BootstrapServers,
    alice: Annotated[Path, typer.Option(help="Client settings of the well-behaved user, as name=value lines.")],
    mallory: Annotated[Path, typer.Option(help="Client settings of the user that creates a producer per message.")],
    seconds: Annotated[float, typer.Option(min=1, help="Length of the traffic.")] = 90,
) -> None:
    """Run the demo's two clients against your own broker."""
    alice_config, mallory_config = (kafka_login(bootstrap_servers, file).client() for file in (alice, mallory))
    create_topic(alice_config)
    require_topic(alice_config, ORDERS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Clients(alice_config, mallory_config) as clients:
        time.sleep(seconds)
    typer.echo(f"sent by alice: {clients.alice}; by mallory: {clients.mallory}")


if __name__ == "__main__":
    run_command(demo_clients)

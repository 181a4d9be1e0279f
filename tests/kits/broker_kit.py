"""Helpers of the tests on a real broker: wait for conditions, produce, run a tap, read what it wrote."""

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.kafka.tail import bounds
from broker.kafka.topics import await_topic
from broker.local.local_broker import LocalBroker
from broker.log.sources import FileSource
from broker.tap.source_tap import SourceTap
from tests.broker.local_cluster import LocalCluster
from wire.event_record import EVENTS_VERSION, events_of

# Only a limit for what went wrong: a healthy run waits for seconds, for Spark's start on a busy machine for minutes.
LIMIT_S = 600.0


def wait_until(condition: Callable[[], bool], what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for a condition, as long as a process lives if one is named."""
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        assert process is None or process.poll() is None, f"the process ended before: {what}"
        assert time.monotonic() < give_up_at, f"never happened: {what}"
        time.sleep(0.02)


def new_topic(broker: LocalBroker | LocalCluster, name: str, partitions: int = 1, **settings: str) -> str:
    """Make a topic of a fresh name."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    make_topic(broker, topic, partitions, 1, **settings)
    return topic


def make_topic(
    broker: LocalBroker | LocalCluster, topic: str, partitions: int = 1, replicas: int = 1, **settings: str
) -> None:
    # Held by a name: an AdminClient that is collected takes its answers with it.
    admin = AdminClient(broker.admin_config() | {"log_level": 0})
    config = {name.replace("_", "."): value for name, value in settings.items()}
    (created,) = admin.create_topics([NewTopic(topic, partitions, replicas, config=config)]).values()
    created.result()
    await_topic(broker.admin_config(), topic)


def produce(settings: dict[str, str], topic: str, messages: int = 1, client_id: str | None = None) -> None:
    """One idempotent producer, one batch per message."""
    more = {} if client_id is None else {"client.id": client_id}
    producer = Producer({"enable.idempotence": True, "log_level": 3, **settings, **more})
    for _ in range(messages):
        producer.produce(topic, b"value", partition=0)
        assert producer.flush(LIMIT_S) == 0


def transactional_producer(settings: dict[str, str], transactional_id: str) -> Producer:
    producer = Producer({"transactional.id": transactional_id, "log_level": 3, **settings})
    producer.init_transactions(LIMIT_S)
    return producer


def produce_in_transactions(producer: Producer, topic: str, transactions: int = 1) -> None:
    for _ in range(transactions):
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.commit_transaction(LIMIT_S)


def end_offset(broker: LocalBroker | LocalCluster, topic: str) -> int:
    """Of all partitions together."""
    consumer = Consumer({**broker.admin_config(), "group.id": "test"})
    partitions = consumer.list_topics(topic, LIMIT_S).topics[topic].partitions
    # Patient with a topic that was made this moment.
    ends = [bounds(consumer, topic, number, LIMIT_S)[1] for number in partitions]
    consumer.close()
    return sum(ends)


def read_events(broker: LocalBroker | LocalCluster, topic: str) -> list[tuple[str, dict[str, Any]]]:
    """All that a topic holds now: key and JSON value, of each produce event in a record of several."""
    expected = end_offset(broker, topic)
    consumer = Consumer({**broker.admin_config(), "group.id": f"test-{uuid.uuid4()}", "auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(topic, LIMIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    events: list[tuple[str, dict[str, Any]]] = []
    for _ in range(expected):
        message = consumer.poll(LIMIT_S)
        assert message is not None, f"{expected} records did not all come"
        assert message.error() is None
        key, value = (message.key() or b"").decode(), json.loads(message.value() or b"")
        is_several = isinstance(value, dict) and value.get("version") == EVENTS_VERSION
        several = msgspec.to_builtins(events_of(message.value() or b"")) if is_several else [value]
        events += [(key, each) for each in several]
    consumer.close()
    return events


def file_tap(log_file: Path, broker_id: int, kafka_config: Mapping[str, str], **options: Any) -> SourceTap:
    """A tap of one broker's log file; `from_end` goes to its source, the other options to the tap."""
    source = FileSource(log_file, broker_id, from_end=options.pop("from_end", False))
    return SourceTap(source, kafka_config, **options)


def broker_tap(broker: LocalBroker, **options: Any) -> SourceTap:
    """A tap of a broker's lines; for its options see `file_tap`."""
    return file_tap(broker.log_file, broker.broker_id, broker.admin_config(), **options)


def restart(broker: LocalBroker) -> None:
    """Stop the broker, if it runs, and start it again: same ports, same data."""
    broker.stop()
    broker.start()


@contextmanager
def running(tap: SourceTap, ended: threading.Event | None = None) -> Iterator[SourceTap]:
    """Run a tap in a thread of its own; its error is raised at the end of the block. `ended` is set when it returns."""
    stop, errors = threading.Event(), []

    def run() -> None:
        try:
            tap.run(stop)
        except BaseException as error:
            errors.append(error)
        finally:
            if ended:
                ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield tap
    finally:
        stop.set()
        thread.join()
        if errors:
            # Also instead of what failed because the tap had ended.
            raise errors[0]


def wait_until_idle(tap: SourceTap, rounds: int = 3) -> None:
    """Until the tap has found nothing new that often in a row from now on, all events delivered.

    It may have been idle for long before what it is to find was written.
    """
    before = tap.idle_rounds
    wait_until(lambda: rounds <= tap.idle_rounds < before or tap.idle_rounds >= before + rounds, f"{tap} idle")


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process for the block, every thread of it: when `kill` returns, some of them may still run."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: _thread_states(pid) == {"T"}, f"process {pid} stopped")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _thread_states(pid: int) -> set[str]:
    """One letter per state that a thread of the process is in."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # It may have ended since it was listed.
        with suppress(OSError):
            states.add((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states

"""Helpers of the tests on a real broker: wait for conditions, produce, read what the plugin wrote."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.record.memory_records import MemoryRecords

from broker.kafka.tail import TopicReader, bounds, decode_values
from broker.kafka.topic_setup import TopicSetup, plan_topics
from broker.kafka.topics import admin_client, existing_topics
from broker.local.local_broker import LocalBroker
from tests.broker.local_cluster import LocalCluster
from wire.event_record import ProduceEvent, parse_events
from wire.plugin_reports import PluginReport, parse_report
from wire.topics import EVENT_PARTITIONS, PRODUCE_EVENTS, REPORTS

R = TypeVar("R", bound=PluginReport)

# Only a limit for what went wrong: a healthy run waits for seconds, for Spark's start on a busy machine for minutes.
LIMIT_S = 600.0


def ensure_topics(
    config: Mapping[str, str], *, partitions: int = EVENT_PARTITIONS, replication_factor: int = -1
) -> None:
    """Create our topics if they are missing."""
    TopicSetup(config).create(plan_topics(partitions), replication_factor=replication_factor)


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
    # Brokers learn of it shortly after the controller.
    asking = admin_client(broker.admin_config())
    wait_until(lambda: topic in existing_topics(asking), f"topic {topic} is listed")


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


def read_records(broker: LocalBroker | LocalCluster, topic: str) -> list[tuple[str, bytes]]:
    """Key and value of all records that a topic holds now."""
    with TopicReader(broker.admin_config(), topic) as records:
        return [((each.key() or b"").decode(), each.value() or b"") for each in records.read_to_end()]


def read_events(broker: LocalBroker | LocalCluster, topic: str = PRODUCE_EVENTS) -> list[ProduceEvent]:
    """All events that a topic holds now, without records of other programs."""
    with TopicReader(broker.admin_config(), topic) as records:
        return _events(records.read_to_end())


def wait_for_events(
    broker: LocalBroker | LocalCluster,
    is_wanted: Callable[[ProduceEvent], bool],
    are_enough: Callable[[list[ProduceEvent]], bool] = bool,
) -> list[ProduceEvent]:
    """The events that fit, once there are enough."""
    found = list[ProduceEvent]()

    def are_there() -> bool:
        found.extend(filter(is_wanted, _events([*records.poll(0.1), *records.poll()])))
        return are_enough(found)

    with TopicReader(broker.admin_config(), PRODUCE_EVENTS) as records:
        wait_until(are_there, "events")
    return found


def events_of(broker: LocalBroker | LocalCluster, *producer_ids: int) -> list[ProduceEvent]:
    """The events of these PIDs, once each of them has one."""
    wanted = {*producer_ids}
    return wait_for_events(
        broker,
        lambda event: event.producer_id in wanted,
        lambda events: wanted == {event.producer_id for event in events},
    )


def _events(messages: Iterable[Message]) -> list[ProduceEvent]:
    return [event for events in decode_values(messages, parse_events) for event in events]


def reports_of(broker: LocalBroker | LocalCluster, kind: type[R]) -> list[R]:
    """All reports of a type (also of a base class) that the topic holds now."""
    reports = [parse_report(value) for _, value in read_records(broker, REPORTS)]
    return [each for each in reports if isinstance(each, kind)]


def wait_for_report(broker: LocalBroker | LocalCluster, kind: type[R], is_wanted: Callable[[R], bool]) -> R:
    """The first report of a type that fits, once it is there."""
    found: list[R] = []

    def is_there() -> bool:
        reports = [parse_report(each.value()) for each in (*records.poll(0.1), *records.poll())]
        found.extend(each for each in reports if isinstance(each, kind) and is_wanted(each))
        return bool(found)

    with TopicReader(broker.admin_config(), REPORTS) as records:
        wait_until(is_there, f"a report {kind.__name__}")
    return found[0]


def stored_batches(segments: Iterable[Path]) -> Iterator[Any]:
    """The batches in segments of a broker's logs, in kafka-python's form."""
    for segment in sorted(segments):
        records = MemoryRecords(segment.read_bytes())
        while records.has_next():
            yield records.next_batch()


def restart(broker: LocalBroker) -> None:
    """Stop the broker, if it runs, and start it again: same ports, same data."""
    broker.stop()
    broker.start()


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

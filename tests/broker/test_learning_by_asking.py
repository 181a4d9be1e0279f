import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
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

from broker.errors import ClusterRequestError
from broker.kafka.config import KafkaConfig
from broker.kafka.topics import ensure_topic
from broker.local.local_broker import LocalBroker
from broker.tap.asking import ask_brokers
from broker.tap.known_ids import KnownIds
from broker.tap.learning_requests import LearningRequests
from broker.tap.source_tap import SourceTap
from jobs.stream.learning_writer import write_request
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import LIMIT_S, broker_tap, new_topic, read_events, running, wait_until, wait_until_idle
from tests.kits.cluster_kit import replicated_topic
from wire.records import LearningRequest
from wire.topics import LEARNING_REQUESTS

HOUR_S = 3600.0
LEARNED, CHARGED = (True, False), (False, True)
PARTITIONS = 3


@pytest.fixture
def new_requests(broker: LocalBroker) -> Iterator[Callable[[str, LearningRequest], None]]:
    """Writes requests, of which none are there."""
    admin = AdminClient({**broker.admin_config()})
    ensure_topic(broker.admin_config(), LEARNING_REQUESTS)
    yield partial(write_request, broker.admin_config())
    admin.delete_topics([LEARNING_REQUESTS])[LEARNING_REQUESTS].result(LIMIT_S)
    wait_until(lambda: LEARNING_REQUESTS not in admin.list_topics(timeout=LIMIT_S).topics, "no requests")


def idempotent_producer(broker: LocalBroker, user: str) -> Producer:
    return Producer({**broker.client_config(user), "enable.idempotence": True, "log_level": 3})


def send(producer: Producer, topic: str, partition: int = 0) -> None:
    producer.produce(topic, b"value", partition=partition)
    assert producer.flush(LIMIT_S) == 0


def send_until_seen(broker: LocalBroker, events_topic: str, topic: str, *producers: Producer) -> None:
    """Send until each producer id has an event of a later tick than now: the class writes it once per tick."""
    now_ms, wanted = time.time() * 1000, len(producers)

    def are_seen() -> bool:
        for partition, each in enumerate(producers):
            # Also on partitions where the broker does not know them.
            send(each, topic, (partition + 1) % PARTITIONS)
        events = [event for _, event in read_events(broker, events_topic) if event["topic"] == topic]
        return len({event["producer_id"] for event in events if event["timestamp_ms"] > now_ms}) == wanted

    wait_until(are_seen, f"events of {wanted} producers")


def asking_tap(broker: LocalBroker, events_topic: str, said: list[str], position_file: Path | None = None) -> SourceTap:
    return broker_tap(
        broker,
        topic=events_topic,
        from_end=True,
        learn_seconds=HOUR_S,
        position_file=position_file,
        ask=ask_brokers(KafkaConfig(broker.admin_config()).kafka_python()),
        warn=said.append,
    )


def marks(broker: LocalBroker, events_topic: str, user: str) -> set[tuple[bool, bool]]:
    """Of the events of a user: marked as learning, and as new by asking."""
    events = [event for key, event in read_events(broker, events_topic) if key == f"User:{user}"]
    return {(event.get("learning", False), event.get("asked_at_ms") is not None) for event in events}


def test_older_producers_are_learned_and_newer_ones_are_charged_in_the_first_minute(
    broker: LocalBroker, events_topic: str
) -> None:
    orders, said = new_topic(broker, "orders", PARTITIONS), list[str]()
    old = [idempotent_producer(broker, "alice") for _ in range(3)]
    for partition, each in enumerate(old):
        send(each, orders, partition)

    with running(asking_tap(broker, events_topic, said)) as tap:
        wait_until_idle(tap)
        wait_until(lambda: bool(said), "the answer")
        send_until_seen(broker, events_topic, orders, *old, idempotent_producer(broker, "mallory"))

    assert said[0].endswith("producer ids existed before; from now on all others count as new")
    assert marks(broker, events_topic, "alice") == {LEARNED}
    assert marks(broker, events_topic, "mallory") == {CHARGED}


def test_the_next_run_of_the_tap_knows_the_answer(broker: LocalBroker, events_topic: str, tmp_path: Path) -> None:
    orders, said = new_topic(broker, "orders"), list[str]()
    old = idempotent_producer(broker, "alice")
    send(old, orders)
    with running(asking_tap(broker, events_topic, said, tmp_path / "position")) as tap:
        wait_until_idle(tap)
        wait_until(lambda: bool(said), "the answer")

    send(idempotent_producer(broker, "mallory"), orders)
    with running(asking_tap(broker, events_topic, said, tmp_path / "position")) as tap:
        wait_until(lambda: tap.counters.events >= 1, "the event of who came meanwhile")

    assert len(said) == 1
    assert marks(broker, events_topic, "mallory") == {CHARGED}


def test_a_stream_that_forgot_has_a_tap_ask_that_has_watched_all_along(
    broker: LocalBroker, events_topic: str, new_requests: Callable[[str, LearningRequest], None]
) -> None:
    orders, said = new_topic(broker, "orders", PARTITIONS), list[str]()
    old = idempotent_producer(broker, "alice")
    send(old, orders)
    with running(asking_tap(broker, events_topic, said)) as tap:
        wait_until_idle(tap)
        wait_until(lambda: bool(said), "the first answer")
        between = idempotent_producer(broker, "admin")
        send_until_seen(broker, events_topic, orders, between)
        forgot_ms = round(time.time() * 1000)
        new_requests("stream", LearningRequest(forgot_ms, forgot_ms + 3_600_000))
        wait_until(lambda: len(said) == 2, "the second answer")
        send_until_seen(broker, events_topic, orders, old, between, idempotent_producer(broker, "mallory"))

    def asked_after(user: str) -> set[bool]:
        events = [event for key, event in read_events(broker, events_topic) if key == f"User:{user}"]
        return {(event.get("asked_at_ms") or 0) >= forgot_ms for event in events}

    assert marks(broker, events_topic, "alice") == {LEARNED}
    assert marks(broker, events_topic, "admin") == {CHARGED}
    assert (asked_after("admin"), asked_after("mallory")) == ({False}, {True})


def test_requests_that_no_stream_can_have_made_are_ignored(
    broker: LocalBroker, new_requests: Callable[[str, LearningRequest], None]
) -> None:
    now_ms = int(time.time()) * 1000
    writer = Producer({**broker.admin_config()})
    for value in (b"{", b"\xff", b"[" * 100_000, b"{}", b"1", b"", None):
        writer.produce(LEARNING_REQUESTS, value, b"stream")
    assert writer.flush(LIMIT_S) == 0
    new_requests("over", LearningRequest(now_ms - 7_200_000, now_ms - 3_600_000))
    new_requests("far ahead", LearningRequest(now_ms + 600_000, now_ms + 3_600_000))
    new_requests("ours", LearningRequest(now_ms - 5000, now_ms + 3_600_000))

    with LearningRequests(broker.admin_config()) as requests:
        assert requests.newest_ms(0) == now_ms - 5000
        new_requests("other", LearningRequest(now_ms - 4000, now_ms + 3_600_000))
        wait_until(lambda: requests.newest_ms(1) == now_ms - 4000, "a newer request")


def test_a_tap_that_may_not_read_requests_warns_once(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.tap.learning_requests._TIMEOUT_S", 1.0)
    warnings = list[str]()
    settings = {**broker.client_config("alice"), "sasl.password": "wrong"}
    with LearningRequests(settings, warnings.append) as requests:
        assert [requests.newest_ms(now_s) for now_s in (0.0, 1.0, 61.0)] == [0, 0, 0]

    (line,) = warnings
    assert line.startswith("streams that lost producer ids learn for a window, because their requests can't be read: ")


def asked(broker: LocalBroker, user: str) -> KnownIds:
    return ask_brokers(KafkaConfig(broker.client_config(user)).kafka_python())({}, threading.Event())


@contextmanager
def only_for(broker: LocalBroker, kind: ResourceType, name: str, operation: AclOperation) -> Iterator[None]:
    """On this broker whatever has no ACL is open to everybody."""
    binding = (kind, name, ResourcePatternType.LITERAL, "User:admin", "*", operation, AclPermissionType.ALLOW)
    admin = AdminClient({**broker.admin_config()})
    (made,) = admin.create_acls([AclBinding(*binding)]).values()
    made.result(LIMIT_S)
    try:
        yield
    finally:
        (gone,) = admin.delete_acls([AclBindingFilter(*binding)]).values()
        gone.result(LIMIT_S)


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE])
def test_an_answer_without_a_topic_that_others_may_write_is_none(broker: LocalBroker, operation: AclOperation) -> None:
    secret = new_topic(broker, "secret")
    send(idempotent_producer(broker, "admin"), secret)
    assert len(asked(broker, "alice")) >= 1

    with only_for(broker, ResourceType.TOPIC, secret, operation):
        wait_until(lambda: _is_refused(broker, secret), f"alice is told that she may not see {secret}")

    assert len(asked(broker, "alice")) >= 1


def _is_refused(broker: LocalBroker, topic: str) -> bool:
    try:
        asked(broker, "alice")
    except ClusterRequestError as error:
        return topic in str(error) and "grant READ" in str(error)
    return False


def test_learning_by_asking_needs_the_right_to_describe_the_cluster(broker: LocalBroker) -> None:
    cluster = only_for(broker, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    with cluster, pytest.raises(ClusterRequestError, match="grant DESCRIBE on the cluster"):
        asked(broker, "alice")


@pytest.mark.slow
def test_a_cluster_with_a_dead_broker_answers_for_all_that_have_a_leader(jars: Path, tmp_path: Path) -> None:
    with LocalCluster(tmp_path, jars=jars) as cluster:
        topic = replicated_topic(cluster, "orders", partitions=6)
        settings = cluster.client_config("alice")
        old = Producer({**settings, "enable.idempotence": True, "log_level": 0})
        for partition in range(6):
            send(old, topic, partition)
        cluster.kill(cluster.node_ids[-1])
        living = settings["bootstrap.servers"].split(",")[:-1]
        admin = AdminClient({**cluster.client_config("alice"), "bootstrap.servers": ",".join(living), "log_level": 0})
        wait_until(lambda: len(admin.list_topics(timeout=LIMIT_S).brokers) == 2, "the controller has taken it for dead")
        kafka = KafkaConfig({**cluster.client_config("alice"), "bootstrap.servers": ",".join(living)}).kafka_python()

        found = ask_brokers(kafka)({}, threading.Event())

    assert len(found) == 1

"""What a hold does to clients, on one broker."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType

from broker.local.local_broker import LocalBroker
from tests.kits.admin_kit import binding, bound
from tests.kits.broker_kit import end_offset, new_topic, transactional_producer, wait_for_report, wait_until
from tests.kits.client_kit import (
    PRODUCERS,
    Program,
    PythonProducers,
    command_of,
    java_program,
    running,
    send_by_confluent_kafka,
    send_by_kafka_python,
)
from tests.kits.hold_kit import (
    LOADING,
    MALLORY,
    Asker,
    Churn,
    HoldWriter,
    Steady,
    held,
    in_force,
    is_at_end,
)
from tests.kits.hostile_kit import Hostile
from tests.kits.occupancy_kit import broker_counts
from wire.plugin_reports import HoldReport

ANYTHING = "*"
CLUSTER = "kafka-cluster"
CLUSTER_AUTHORIZATION_FAILED = 31
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53


@pytest.fixture(scope="module")
def broker(held_broker: LocalBroker) -> LocalBroker:
    return held_broker


@pytest.fixture(scope="module")
def topic(broker: LocalBroker) -> str:
    return new_topic(broker, "orders")


@pytest.fixture
def mallory(broker: LocalBroker) -> Iterator[Asker]:
    with Asker(broker) as asker:
        yield asker


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Hostile]:
    with Hostile(broker, "mallory") as connection:
        yield connection


def producers(
    library: str, jars: Path, settings: dict[str, str], topic: str
) -> AbstractContextManager[Program | PythonProducers]:
    if library == "java":
        return running(command_of(java_program(jars), settings, topic, str(PRODUCERS)), awaits_start=True)
    send = {"confluent-kafka": send_by_confluent_kafka, "kafka-python": send_by_kafka_python}[library]
    return PythonProducers(send, settings, topic)


@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python", pytest.param("java", marks=pytest.mark.slow)])
def test_new_producers_wait_until_the_hold_ends_by_itself_and_nobody_else_notices(
    broker: LocalBroker, topic: str, jars: Path, library: str
) -> None:
    new = producers(library, jars, broker.client_config("mallory"), topic)
    known, alice = (
        Steady(broker.client_config("mallory"), topic, "known"),
        Steady(broker.client_config("alice"), topic, "alice"),
    )
    known.send(), alice.send()
    before = end_offset(broker, topic)
    with new as waiting, HoldWriter(broker) as holds:
        report = holds.wait_for(holds.hold(8))
        until_s = in_force(report)[MALLORY].ends_ms / 1000
        waiting.start()
        sent = 0
        while time.time() < until_s - 3:
            known.send(), alice.send()
            sent += 2
            time.sleep(0.05)
        assert end_offset(broker, topic) == before + sent
        ends = waiting.ends()
        over = wait_for_report(
            broker, HoldReport, lambda each: each.timestamp_ms > report.timestamp_ms and not in_force(each)
        )
    # Kafka logs each held request as an error, which the plugin keeps out of the log.
    assert "INIT_PRODUCER_ID" not in broker.server_log.read_text()
    assert all(is_at_end(end, until_s) for end in ends), [end - until_s for end in ends]
    assert known.throttles_s + alice.throttles_s == []
    assert end_offset(broker, topic) == before + sent + PRODUCERS
    assert [(each.principal, each.ended, each.held_requests > 0) for each in over.held] == [(MALLORY, "expired", True)]


def test_a_newer_record_shortens_or_extends_a_hold(broker: LocalBroker, mallory: Asker) -> None:
    with HoldWriter(broker) as holds:
        first = in_force(holds.wait_for(holds.hold(2)))[MALLORY]
        extended = in_force(holds.wait_for(holds.hold(500, decision_id="d-2")))[MALLORY]
        assert (extended.since_ms, extended.decision_id) == (first.since_ms, "d-2")
        assert extended.ends_ms - first.ends_ms > 400_000
        time.sleep(2.5)
        assert mallory.error() == LOADING
        holds.wait_for(holds.hold(1))
        wait_until(lambda: mallory.error() == 0, "it has ended long before its first end")


def test_known_transactional_ids_notice_nothing_and_new_ones_wait(
    broker: LocalBroker, topic: str, client: Hostile
) -> None:
    known = transactional_producer(broker.client_config("mallory"), "known")
    client.producer_id("also-known")
    with held(broker) as holds:
        transactional_producer(broker.client_config("mallory"), "known")
        again = transactional_producer(broker.client_config("mallory"), "known")
        again.begin_transaction()
        again.produce(topic, b"value")
        again.commit_transaction(30)
        assert [client.init("also-known")[0] for _ in range(3)] == [0, 0, 0]
        assert [client.init("new")[0] for _ in range(3)] == [LOADING] * 3
        holds.wait_for(holds.remove())
        assert client.producer_id("new") >= 0
    del known


def test_a_producer_without_idempotence_is_not_held(broker: LocalBroker, topic: str) -> None:
    with held(broker):
        producer = Producer({**broker.client_config("mallory"), "enable.idempotence": False})
        producer.produce(topic, b"value")
        assert producer.flush(30) == 0


@pytest.mark.parametrize("transactional_id", [None, "paced"])
def test_one_request_passes_per_time(client: Hostile, broker: LocalBroker, transactional_id: str | None) -> None:
    with HoldWriter(broker) as holds:
        start = time.monotonic()
        holds.wait_for(holds.hold(init_every_ms=1000))
        passed: list[float] = []
        while len(passed) < 4:
            # Each is new to the coordinator.
            id_ = transactional_id and f"{transactional_id}-{time.monotonic()}"
            if client.init(id_)[0] == 0:
                passed.append(time.monotonic() - start)
            if len(passed) == 2:
                # neither an extension nor another pace lets more through
                holds.hold(init_every_ms=1001)
        # Nothing passes before its time, and nothing accumulates.
        assert all(at_s >= number for number, at_s in enumerate(passed, 1))


def test_a_herd_gets_one_per_time(broker: LocalBroker, topic: str) -> None:
    with HoldWriter(broker) as holds:
        (before,) = broker_counts(broker.pid)
        start = time.monotonic()
        holds.wait_for(holds.hold(30, init_every_ms=500))
        with Churn(broker.client_config("mallory"), topic, 20) as herd:
            time.sleep(5)
            holds.wait_for(holds.hold(30, init_every_ms=500))
            time.sleep(5)
            herd.stop()
            report = holds.wait_for(holds.remove())
            seconds = time.monotonic() - start
        (mallory,) = report.held
        (after,) = broker_counts(broker.pid)
    # The broker itself counts what has passed. A producer may have ended before it used its PID.
    assert mallory.let_in - 1 <= after - before <= mallory.let_in <= seconds / 0.5
    assert mallory.let_in >= 10
    assert mallory.held_requests > mallory.let_in


def test_a_release_lets_one_or_all_go_until_it_ends_and_holds_count_again(broker: LocalBroker, mallory: Asker) -> None:
    with held(broker) as holds, Asker(broker, "alice") as alice:
        holds.wait_for(holds.hold(principal="User:alice"))
        assert (mallory.error(), alice.error()) == (LOADING, LOADING)

        report = holds.wait_for(holds.release(principal=MALLORY))
        assert (mallory.error(), alice.error()) == (0, LOADING)
        assert (report.released, [*in_force(report)]) == ([MALLORY], ["User:alice"])
        assert [(each.principal, each.ended) for each in report.held if each.ended] == [(MALLORY, "released")]

        # what is written later counts when the release is over
        report = holds.wait_for(holds.hold(decision_id="later"))
        assert mallory.error() == 0
        holds.wait_for(holds.end_release(MALLORY))
        assert mallory.error() == LOADING

        report = holds.wait_for(holds.release(2))
        assert (report.released, in_force(report)) == (["*"], {})
        assert (mallory.error(), alice.error()) == (0, 0)
        report = wait_for_report(
            broker, HoldReport, lambda each: each.timestamp_ms > report.timestamp_ms and len(in_force(each)) == 2
        )
        assert (mallory.error(), alice.error()) == (LOADING, LOADING)
        assert in_force(report)[MALLORY].decision_id == "later"


def test_acls_are_asked_first(broker: LocalBroker, client: Hostile) -> None:
    """Without the right, a user gets the error of the right; the right on a topic alone is enough to be held."""
    no_cluster = binding(CLUSTER, kind=ResourceType.BROKER, operation=AclOperation.IDEMPOTENT_WRITE)
    with held(broker), bound(broker, no_cluster):
        assert client.init()[0] == LOADING
        with bound(broker, binding(ANYTHING)):
            assert client.init()[0] == CLUSTER_AUTHORIZATION_FAILED
        with bound(broker, binding("foreign", kind=ResourceType.TRANSACTIONAL_ID)):
            assert client.init("foreign")[0] == TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_acls_mean_what_they_mean_to_kafkas_authorizer(broker: LocalBroker, topic: str) -> None:
    def write(user: str) -> list[str | None]:
        producer = Producer({**broker.client_config(user), "enable.idempotence": False, "log_level": 0})
        errors: list[str | None] = []
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error.name() if error else None))
        assert producer.flush(30) == 0
        return errors

    with held(broker), bound(broker, binding(topic)):
        assert (write("mallory"), write("alice")) == (["TOPIC_AUTHORIZATION_FAILED"], ["TOPIC_AUTHORIZATION_FAILED"])
        with bound(broker, binding(topic, "User:alice", permission=AclPermissionType.ALLOW)):
            assert (write("mallory"), write("alice")) == (["TOPIC_AUTHORIZATION_FAILED"], [None])


def test_brokers_tell_every_ten_seconds_whom_they_hold(broker: LocalBroker, mallory: Asker) -> None:
    with held(broker) as holds:
        first = holds.wait_for(holds.hold())
        assert mallory.error() == LOADING
        again = wait_for_report(
            broker, HoldReport, lambda each: each.timestamp_ms - first.timestamp_ms > 9000 and bool(in_force(each))
        )
        assert again.offset == first.offset
        assert in_force(again)[MALLORY].held_requests == in_force(first)[MALLORY].held_requests + 1


def test_time_in_which_nobody_asks_lets_no_more_through(held_broker: LocalBroker) -> None:
    with held(held_broker, init_every_ms=2000), Hostile(held_broker, "mallory") as client:
        time.sleep(6.5)
        assert [client.init()[0] for _ in range(3)] == [0, LOADING, LOADING]

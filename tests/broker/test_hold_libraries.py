"""Tests of libraries under a hold (docs/throttled.md). They are slow because they fetch libraries."""

import shutil
import time
from contextlib import AbstractContextManager

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from broker.kafka.config import KafkaConfig
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import end_offset, new_topic, stored_batches
from tests.kits.client_kit import Program, command_of, install_aiokafka, install_kafkajs, running
from tests.kits.hold_kit import LOADING, Asker, HoldWriter, end_s, held, is_at_end

pytestmark = pytest.mark.slow
needs_node = pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm command: install Node.js and npm")
GIVEN_UP = "KafkaJSNumberOfRetriesExceeded"
NO_PRODUCER_ID = -1
"""What a batch of a producer without idempotence has for one."""
LONGER_THAN_THE_TEST_MS = 600_000


@pytest.fixture(scope="module")
def broker(held_broker: LocalBroker) -> LocalBroker:
    return held_broker


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    return new_topic(broker, "orders")


@pytest.fixture(scope="module")
def kafkajs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return install_kafkajs(tmp_path_factory.mktemp("kafkajs"))


@pytest.fixture(scope="module")
def aiokafka(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return install_aiokafka(tmp_path_factory.mktemp("aiokafka"))


def error_of_init(broker: LocalBroker) -> int:
    with Asker(broker) as mallory:
        return mallory.error()


def sending(program: list[str], broker: LocalBroker, topic: str, *mode: str) -> AbstractContextManager[Program]:
    """A new producer of mallory that sends a message."""
    return running(command_of(program, broker.client_config("mallory"), topic, *mode))


def producer_ids(broker: LocalBroker, topic: str) -> list[int]:
    """The producer id of each batch in a topic."""
    return [batch.producer_id for batch in stored_batches(broker.folder.rglob(f"{topic}-0/*.log"))]


@needs_node
@pytest.mark.parametrize("mode", ["once", "retries"])
def test_kafkajs_gives_up_during_a_hold_whatever_its_retries(
    broker: LocalBroker, kafkajs: list[str], topic: str, mode: str
) -> None:
    with held(broker, hold_ms=LONGER_THAN_THE_TEST_MS):
        with sending(kafkajs, broker, topic, mode) as producer:
            producer.join()
        assert (producer.lines("failed"), producer.lines("delivered")) == ([GIVEN_UP], [])
        assert error_of_init(broker) == LOADING
    assert end_offset(broker, topic) == 0


@needs_node
def test_kafkajs_that_connects_again_waits_and_sends_once(broker: LocalBroker, kafkajs: list[str], topic: str) -> None:
    with (
        held(broker, hold_ms=LONGER_THAN_THE_TEST_MS) as holds,
        sending(kafkajs, broker, topic, "again") as producer,
    ):
        # The hold is removed once the producer has given up, however long that takes.
        producer.wait_for("failed")
        assert (error_of_init(broker), producer.lines("delivered")) == (LOADING, [])
        holds.remove()
        producer.join()
    assert set(producer.lines("failed")) == {GIVEN_UP}
    assert len(producer.lines("delivered")) == end_offset(broker, topic) == 1
    assert NO_PRODUCER_ID not in producer_ids(broker, topic)


@needs_node
def test_kafkajs_that_could_not_connect_sends_without_a_producer_id(
    broker: LocalBroker, kafkajs: list[str], topic: str
) -> None:
    with held(broker, hold_ms=LONGER_THAN_THE_TEST_MS):
        with sending(kafkajs, broker, topic, "anyway") as producer:
            producer.join()
        assert (producer.lines("failed"), len(producer.lines("delivered"))) == ([GIVEN_UP], 1)
        assert error_of_init(broker) == LOADING
    assert producer_ids(broker, topic) == [NO_PRODUCER_ID]


def test_aiokafka_starts_when_the_hold_ends_and_sends_once(
    broker: LocalBroker, aiokafka: list[str], topic: str
) -> None:
    with HoldWriter(broker) as holds:
        until_s = end_s(holds.wait_for(holds.hold(15)))
        with sending(aiokafka, broker, topic) as producer:
            producer.join()
        assert producer.lines("started") == [""]
        (delivered_at,) = producer.times("delivered")
        assert is_at_end(delivered_at, until_s)
    assert error_of_init(broker) == 0
    assert end_offset(broker, topic) == 1
    assert NO_PRODUCER_ID not in producer_ids(broker, topic)


def test_kafka_python_reports_an_expired_message_only_when_the_hold_ends(broker: LocalBroker, topic: str) -> None:
    settings = KafkaConfig(broker.client_config("mallory")).kafka_python()
    with HoldWriter(broker) as holds:
        until_s = end_s(holds.wait_for(holds.hold(15)))
        # It asks for its id as soon as it is there.
        producer = KafkaProducer(**settings, delivery_timeout_ms=2000, request_timeout_ms=1000)
        try:
            with pytest.raises(KafkaError, match="Expiring 1 record"):
                producer.send(topic, b"waited").get(60)
            assert is_at_end(time.time(), until_s)
        finally:
            producer.close()
    assert error_of_init(broker) == 0
    # It may have been in a request that was just made: most often it is.
    assert end_offset(broker, topic) <= 1

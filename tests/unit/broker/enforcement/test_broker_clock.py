"""Tests of the probes of the brokers' clock with a fake producer; tests/broker/test_enforce.py has a real one."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from broker.enforcement.broker_clock import BrokerClock
from broker.enforcement.clock import BrokersTime

BROKER_MS = 1_800_000_000_000


class Probes:
    """Answers each probe at the next poll."""

    def __init__(self) -> None:
        self.kind = TIMESTAMP_LOG_APPEND_TIME
        self.refused = False
        self._waiting: list[Any] = []

    def produce(self, _topic: str, *, on_delivery: Any, **_: Any) -> None:
        if self.refused:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        self._waiting.append(on_delivery)

    def poll(self, _timeout_s: float) -> None:
        for learn in self._waiting:
            learn(None, SimpleNamespace(timestamp=lambda: (self.kind, BROKER_MS)))
        self._waiting.clear()


@pytest.fixture
def probes() -> Iterator[Probes]:
    probes = Probes()
    with patch("broker.enforcement.broker_clock.Producer", lambda _: probes):
        yield probes


@pytest.fixture
def time() -> BrokersTime:
    return BrokersTime(lambda: 0, lambda: 0)


def test_the_time_that_the_broker_gave_a_record_counts(probes: Probes, time: BrokersTime) -> None:
    BrokerClock({}, time).measure()
    assert time.now_ms() != 0


def test_a_time_that_the_producer_gave_it_does_not(probes: Probes, time: BrokersTime) -> None:
    probes.kind = TIMESTAMP_CREATE_TIME
    BrokerClock({}, time).measure()
    assert time.now_ms() == 0


def test_without_the_right_to_write_there_is_no_measurement_and_no_error(probes: Probes, time: BrokersTime) -> None:
    probes.refused = True
    BrokerClock({}, time).measure()
    assert time.now_ms() == 0

"""Tests of the probes of the brokers' clock with a fake producer; tests/broker/test_enforce.py has a real one."""

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from broker.enforcement.broker_clock import BrokerClock
from broker.enforcement.clock import BrokersTime

BROKER_MS = 1_800_000_000_000


class Probes:
    """Answers each probe at the next poll, after `late_ms` on the broker's and on the monotonic clock."""

    def __init__(self) -> None:
        self.kind = TIMESTAMP_LOG_APPEND_TIME
        self.refused = False
        self.late_ms = self.steady_ms = self.sent = 0
        self._waiting: list[Any] = []

    def produce(self, _topic: str, *, on_delivery: Any, **_: Any) -> None:
        if self.refused:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        self.sent += 1
        self._waiting.append((on_delivery, BROKER_MS + self.steady_ms))

    def poll(self, _timeout_s: float) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.steady_ms += self.late_ms
        for learn, broker_ms in waiting:
            learn(None, SimpleNamespace(timestamp=partial(lambda *now: now, self.kind, broker_ms)))


@pytest.fixture
def probes() -> Iterator[Probes]:
    probes = Probes()
    with (
        patch("broker.enforcement.broker_clock.Producer", lambda _: probes),
        patch("broker.enforcement.broker_clock.steady_ms", lambda: probes.steady_ms),
    ):
        yield probes


@pytest.fixture
def time(probes: Probes) -> BrokersTime:
    return BrokersTime(lambda: 0, lambda: probes.steady_ms)


def test_the_time_that_the_broker_gave_a_record_counts(probes: Probes, time: BrokersTime) -> None:
    assert BrokerClock({}, time).now_ms() == BROKER_MS


def test_a_time_that_the_producer_gave_it_does_not(probes: Probes, time: BrokersTime) -> None:
    probes.kind = TIMESTAMP_CREATE_TIME
    assert BrokerClock({}, time).now_ms() == 0


def test_without_the_right_to_write_there_is_no_measurement_and_no_error(probes: Probes, time: BrokersTime) -> None:
    probes.refused = True
    assert BrokerClock({}, time).now_ms() == 0


def test_the_clock_is_read_every_30_s(probes: Probes, time: BrokersTime) -> None:
    clock = BrokerClock({}, time)
    for probes.steady_ms in range(0, 90_000, 1_000):
        clock.now_ms()
    assert probes.sent == 3


def test_an_answer_that_comes_late_is_no_clock_that_was_set_back(probes: Probes, time: BrokersTime) -> None:
    # given
    clock = BrokerClock({}, time)
    clock.now_ms()

    # when
    probes.steady_ms, probes.late_ms = 30_000, 8_000
    now_ms = clock.now_ms()

    # then
    assert now_ms == BROKER_MS + 38_000

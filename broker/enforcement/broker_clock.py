"""Measures the brokers' time."""

import time
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from broker.closing import Closing
from broker.enforcement.clock import BrokersTime
from broker.enforcement.lock import LOCK_PARTITION
from wire.topics import ENFORCER_TOPIC

_EVERY_MS = 30_000
_FIRST_S = 5.0


class BrokerClock(Closing):
    """A clock that measures the brokers' time every 30 s with a probe record.

    The probe's delivery report contains the LogAppendTime of the partition's leader.
    """

    def __init__(self, settings: Mapping[str, str], time_: BrokersTime) -> None:
        self._producer = Producer(
            {**settings, "enable.idempotence": "false", "acks": "1", "message.timeout.ms": "10000", "log_level": "0"}
        )
        self._time = time_
        self._next_ms = 0
        self._is_measured = False

    def now_ms(self) -> int:
        """Return the brokers' time, in ms since the epoch. Send a probe if one is due. This never blocks."""
        self._measure()
        return self._time.now_ms()

    def _measure(self) -> None:
        now_ms = steady_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + _EVERY_MS

            def learn(error: KafkaError | None, message: Message) -> None:
                timestamp_type, broker_ms = message.timestamp()
                if error is None and timestamp_type == TIMESTAMP_LOG_APPEND_TIME:
                    self._time.measured(now_ms, broker_ms, steady_ms())
                    self._is_measured = True

            # Ignore errors here. If this user lacks WRITE on the topic, logging a lease raises an error.
            with suppress(KafkaException):
                self._producer.produce(
                    ENFORCER_TOPIC, key=b"clock", value=b"", partition=LOCK_PARTITION, on_delivery=learn
                )
        self._producer.poll(0)

    def wait(self) -> None:
        """Wait up to 5 s for the first measurement."""
        give_up_s = time.monotonic() + _FIRST_S
        while not self._is_measured and time.monotonic() < give_up_s:
            self._measure()
            self._producer.poll(0.05)

    def close(self) -> None:
        """Drop probes in flight."""
        self._producer.purge()
        self._producer.flush(1)


def steady_ms() -> int:
    """Return the time of the monotonic clock, in milliseconds."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return this host's time, in milliseconds since the epoch."""
    return round(time.time() * 1000)

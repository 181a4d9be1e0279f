"""Measures clock skew against a broker: leases end by our clock, decisions are dated by theirs."""

import time
from collections.abc import Mapping

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message, Producer

from broker.enforcer.lock import LOCK_PARTITION
from wire.topics import ENFORCER_TOPIC

_EVERY_MS = 30_000


class BrokerClock:
    """Sends a probe record every 30 s; the delivery report carries the broker's LogAppendTime.

    The records carry no producer id (they are not idempotent), so they cost no quota. The clock is that of one
    broker, the leader of the partition.

    Args:
        settings: confluent-kafka settings of a user with WRITE on the lease topic.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._producer = Producer(
            {**settings, "enable.idempotence": "false", "acks": "1", "message.timeout.ms": "10000", "log_level": "0"}
        )
        self._sent_ms: int | None = None
        self._next_ms = 0
        self._skew_ms: int | None = None

    def skew_ms(self) -> int | None:
        """Return a lower bound of how far the broker is ahead (negative: behind); None before the first report.

        The round trip is excluded. Never blocks.
        """
        now_ms = _now_ms()
        if now_ms >= self._next_ms or now_ms < self._next_ms - _EVERY_MS:
            self._next_ms = now_ms + _EVERY_MS
            self._sent_ms = now_ms
            self._producer.produce(
                ENFORCER_TOPIC, key=b"clock", value=b"", partition=LOCK_PARTITION, on_delivery=self._receipt
            )
        self._producer.poll(0)
        return self._skew_ms

    def close(self) -> None:
        """Drop probes in flight."""
        self._producer.purge()
        self._producer.flush(1)

    def _receipt(self, error: KafkaError | None, message: Message) -> None:
        kind, broker_ms = message.timestamp()
        if error is not None or kind != TIMESTAMP_LOG_APPEND_TIME or self._sent_ms is None:
            return
        # The broker's clock was read between sending and now.
        ahead_ms, behind_ms = broker_ms - _now_ms(), self._sent_ms - broker_ms
        self._skew_ms = max(ahead_ms, 0) - max(behind_ms, 0)


def _now_ms() -> int:
    return round(time.time() * 1000)

"""Compares this machine's clock with a broker's: leases end by ours, decisions are dated by theirs."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message, Producer

from broker.enforcer.lock import LOCK_PARTITION
from wire.topics import ENFORCER_TOPIC

_EVERY_MS = 30_000


class BrokerClock:
    """Sends a record now and then; the time that the broker stamps on it comes back with the receipt.

    The records carry no producer id (they are not idempotent), so they cost nobody's quota. It is the clock of one
    broker, the leader of that partition.

    Args:
        settings: confluent-kafka settings of someone who may write to the enforcers' topic.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._producer = Producer(
            {**settings, "enable.idempotence": "false", "acks": "1", "message.timeout.ms": "10000", "log_level": "0"}
        )
        self._sent_ms: int | None = None
        self._next_ms = 0
        self._skew_ms: int | None = None

    def skew_ms(self) -> int | None:
        """Return by how much the broker is ahead of us at least (negative: behind); None before the first receipt.

        What the record's way there and back may have taken is left out of it. Never waits.
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
        """Give up what is under way."""
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

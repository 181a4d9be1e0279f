"""Reads `pid-quota-holds` and `pid-quota-reports`, and writes holds and releases."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from broker.closing import Closing
from broker.enforcement.hold_state import HoldState, Read
from broker.errors import BrokerUnreachableError, HoldNotWrittenError
from broker.kafka.errors import name_of, reason_of
from broker.kafka.silence import found_silent, silent_brokers
from broker.kafka.tail import TopicReader
from broker.kafka.topics import admin_client
from wire.holds import Release, WriterRecord, hold_key, release_key, writer_headers, writer_key
from wire.topics import HOLDS, REPORTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from confluent_kafka.admin import TopicDescription

    from broker.enforcement.model import Change
    from wire.holds import Headers

PARTITION = 0
"""Brokers read only this partition of the topic of holds, which has no other unless somebody made it by mistake."""
WRITE_TIMEOUT_S = 5.0
LOOK_EVERY_MS = 2_000
LOOK_BACK_MS = 60_000
"""Reports of this time before the start tell which brokers are alive."""
_encode = msgspec.json.encode


def steady_ms() -> int:
    """Return the monotonic clock in ms."""
    return time.monotonic_ns() // 1_000_000


class HoldTopic(Closing):
    """Follows both topics into a `HoldState`, and writes to `pid-quota-holds`.

    Raises:
        TopicMissingError: If a topic does not exist.
        BrokerUnreachableError: If no broker answers.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._admin = admin_client(config)
        self.state = HoldState(str(self._admin.metadata().cluster_id))
        self._topic_id: str | None = None
        self._asked: Future[TopicDescription] | None = None
        self._asked_ms = steady_ms()
        begin_ms = time.time_ns() // 1_000_000
        self._reports = TopicReader(config, REPORTS, start=begin_ms - LOOK_BACK_MS)
        try:
            self._holds = TopicReader(config, HOLDS, only=PARTITION)
        except Exception:
            self._reports.close()
            raise
        # A producer of its own makes no producer id.
        self._producer = Producer(
            {**config, "acks": "all", "enable.idempotence": False, "linger.ms": 0, "log_level": 0}
            | {"message.timeout.ms": round(WRITE_TIMEOUT_S * 1000)}
        )
        self.state.see_reports((_read(each, is_old=True) for each in self._reports.read_to_end()), steady_ms())
        self.state.see_holds((_read(each, is_old=True) for each in self._holds.read_to_end()), steady_ms())

    def is_stale(self) -> bool:
        """Return whether the topic of holds is gone or was made anew, so that another `HoldTopic` must be opened.

        A consumer may go on for minutes as if nothing had happened.
        """
        if self._asked is None:
            if steady_ms() - self._asked_ms >= LOOK_EVERY_MS:
                self._asked_ms = steady_ms()
                self._asked = self._admin.describe_topics(TopicCollection([HOLDS]))[HOLDS]
            return False
        if not self._asked.done():
            return False
        asked, self._asked = self._asked, None
        error = asked.exception()
        if error is not None:
            return isinstance(error, KafkaException) and name_of(error) == "UNKNOWN_TOPIC_OR_PART"
        before, self._topic_id = self._topic_id, str(asked.result().topic_id)
        return before not in (None, self._topic_id)

    def poll(self, wait_s: float = 0) -> None:
        """Take new records of both topics. Wait for a report for up to `wait_s`, if there is none."""
        reports = self._reports.poll(wait_s)
        self.state.see_reports(map(_read, reports + (self._reports.poll() if reports else [])), steady_ms())
        self.state.see_holds(map(_read, self._holds.poll()), steady_ms())

    def write(self, changes: Iterable[Change]) -> int:
        """Write holds and ends of holds, and wait until brokers have them. Return the offset of the last record.

        Raises:
            HoldNotWrittenError: If a record was not written.
        """
        records = [(hold_key(each.principal), _encode(each.hold) if each.hold else None) for each in changes]
        return self._write(records)

    def release(self, principal: str, release: Release | None) -> int:
        """Write a release, or its end. Return the record's offset. Raises HoldNotWrittenError."""
        return self._write([(release_key(principal), _encode(release) if release else None)])

    def announce(self, record: WriterRecord) -> int:
        """Write that a stream is alive. Return the record's offset. Raises HoldNotWrittenError."""
        return self._write([(writer_key(record.writer), None)], writer_headers(record))

    def _write(
        self, records: list[tuple[bytes, bytes | None]], headers: list[tuple[str, str | bytes | None]] | None = None
    ) -> int:
        answers: list[tuple[KafkaError | None, Message]] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            answers.append((error, message))

        for key, value in records:
            self._producer.produce(HOLDS, value, key, PARTITION, on_delivery=answered, headers=headers or [])
        self._producer.flush(2 * WRITE_TIMEOUT_S)
        failed = [error for error, _ in answers if error is not None]
        if failed or len(answers) < len(records):
            reason = reason_of(KafkaException(failed[0])) if failed else f"no answer in {2 * WRITE_TIMEOUT_S:g} s"
            self._require_answers(reason)
            msg = (
                f"topic {HOLDS} of {self._config['bootstrap.servers']} can't be written ({reason}): check that it has "
                "a leader, and that pid.quota.writers of the brokers names this user (docs/enforcement.md)"
            )
            raise HoldNotWrittenError(msg)
        last = max(message.offset() or 0 for _, message in answers)
        self._catch_up(last)
        return last

    def _require_answers(self, reason: str) -> None:
        """Raise HoldNotWrittenError if some brokers are silent: the topic's leader may be one of them."""
        answering, silent = silent_brokers(self._config)
        if answering and silent:
            failure = f"topic {HOLDS} can't be written ({reason})"
            raise HoldNotWrittenError(str(found_silent(failure, "", (answering, silent))))

    def _catch_up(self, offset: int) -> None:
        give_up_at = time.monotonic() + WRITE_TIMEOUT_S
        while self.state.offset < offset:
            self.state.see_holds(map(_read, self._holds.poll(0.05)), steady_ms())
            if time.monotonic() > give_up_at:
                msg = f"topic {HOLDS} was written, but not read back in {WRITE_TIMEOUT_S:g} s: check READ on it"
                raise BrokerUnreachableError(msg)

    def close(self) -> None:
        """Close all clients."""
        self._producer.purge()
        self._reports.close()
        self._holds.close()


def _read(message: Message, *, is_old: bool = False) -> Read:
    key, value = message.key(), message.value()
    headers = _pairs(message.headers())
    return Read(message.offset() or 0, message.timestamp()[1], _bytes(key), _bytes(value), is_old, headers)


def _pairs(headers: Any) -> Headers:
    """Return a record's headers. The library gives pairs, but has another type for them."""
    found: list[tuple[str, str | bytes | None]] = headers or []
    return found


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text

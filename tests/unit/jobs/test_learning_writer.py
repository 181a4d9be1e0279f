"""What a stream says that can't write its request."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import Mock

import msgspec
import pytest

from broker.errors import TopicError
from jobs.stream import learning_writer
from jobs.stream.learning_writer import write_request
from wire.records import LearningRequest
from wire.topics import LEARNING_REQUESTS

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


class Producer:
    """Stands in for librdkafka's."""

    def __init__(self, error: str, left: int) -> None:
        self.error, self.left = error, left
        self.settings: dict[str, str] = {}
        self.sent: list[tuple[object, ...]] = []

    def made(self, settings: dict[str, str]) -> "Producer":
        self.settings = settings
        return self

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[..., None]) -> None:
        self.sent.append((topic, key, msgspec.json.decode(value, type=LearningRequest)))
        on_delivery(SimpleNamespace(str=lambda: self.error) if self.error else None, None)

    def flush(self, _timeout_s: float) -> int:
        return self.left


REQUEST = LearningRequest(NOW_MS, NOW_MS + HOUR_MS)


@pytest.mark.parametrize(("error", "left"), [("", 0), ("no WRITE", 0), ("", 1)])
def test_a_stream_writes_under_its_name_without_a_producer_id_and_logs_what_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: str, left: int
) -> None:
    producer = Producer(error, left)
    monkeypatch.setattr(learning_writer, "Producer", producer.made)
    monkeypatch.setattr(learning_writer, "ensure_topic", lambda *_: None)

    with caplog.at_level(logging.WARNING):
        write_request({"bootstrap.servers": "x:1"}, "stream", REQUEST)

    assert producer.sent == [(LEARNING_REQUESTS, b"stream", REQUEST)]
    assert (producer.settings["enable.idempotence"], producer.settings["acks"]) == ("false", "all")
    reasons = [error or "no answer"] if error or left else []
    said = [f"({reason}), so this stream learns by waiting" in caplog.text for reason in reasons]
    assert said == [True] * len(reasons)
    assert len(caplog.records) == len(reasons)


def test_a_stream_that_may_not_create_the_topic_says_so_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(learning_writer, "ensure_topic", Mock(side_effect=TopicError("no CREATE")))

    with caplog.at_level(logging.WARNING):
        write_request({"bootstrap.servers": "x:1"}, "stream", REQUEST)

    assert "(no CREATE), so this stream learns by waiting" in caplog.text

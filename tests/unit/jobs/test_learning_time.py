"""From when to when a new stream learns."""

from dataclasses import replace

import pytest

from broker.kafka.config import KafkaConfig
from broker.kafka.offsets import OldestRecord
from jobs.stream import running
from streaming.pipeline import StreamOptions

NOW_S, OLDEST_MS = 1_790_000_000, 1_789_000_000_000
OPTIONS = StreamOptions(topic="events", kafka_options={}, tables="tables", checkpoint="checkpoint")


@pytest.mark.parametrize(
    ("oldest", "new_checkpoint", "begin_ms", "from_ms"),
    [
        # All records are there: what a tap has asked counts, whenever it asked.
        (OldestRecord(OLDEST_MS, is_first=True), False, OLDEST_MS, 0),
        (OldestRecord(None, is_first=True), False, NOW_S * 1000, 0),
        # Records are gone: only what was asked since the oldest.
        (OldestRecord(OLDEST_MS, is_first=False), False, OLDEST_MS, OLDEST_MS),
        (OldestRecord(None, is_first=False), False, NOW_S * 1000, NOW_S * 1000),
        # The ledgers are lost: only what is asked from now on.
        (OldestRecord(OLDEST_MS, is_first=True), True, NOW_S * 1000, NOW_S * 1000),
    ],
)
def test_it_learns_from_the_oldest_record_or_from_now(
    monkeypatch: pytest.MonkeyPatch, oldest: OldestRecord, new_checkpoint: bool, begin_ms: int, from_ms: int
) -> None:
    monkeypatch.setattr(running, "oldest_record", lambda *_: oldest)
    monkeypatch.setattr("time.time", lambda: NOW_S)
    options = replace(OPTIONS, new_checkpoint=new_checkpoint)

    found = running.learning_time(KafkaConfig({"bootstrap.servers": "a:1"}), options, 600)

    assert found == (from_ms, begin_ms + 600_000)


def test_it_learns_not_at_all_if_it_is_told_so() -> None:
    assert running.learning_time(KafkaConfig({"bootstrap.servers": "a:1"}), OPTIONS, 0) == (0, 0)

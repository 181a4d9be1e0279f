"""The start of a stream: its tables, its learning time, and its wait for the end of its queries.

For streams whose tables are gone see tests/attack/test_tables_gone.py.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from broker.kafka.config import KafkaConfig
from broker.kafka.offsets import OldestRecord
from jobs.stream import running
from jobs.stream.running import await_step_back, prepare_tables
from quota.config import QuotaConfig
from streaming.checkpoint.table_ids import NEEDED, save_table_ids, table_ids
from streaming.errors import CheckpointError
from streaming.pipeline import StreamOptions
from tables.store.open import open_store
from tables.store.values import StreamSettings

CONFIG = QuotaConfig()
SERVERS = "kafka-1:9092,kafka-2:9092"
OPTIONS = StreamOptions(
    topic="events", kafka_options={"kafka.bootstrap.servers": SERVERS}, tables="tables", checkpoint="checkpoint"
)


def prepare(tables: Path, checkpoint: str, *, new_tables: bool, config: QuotaConfig = CONFIG) -> None:
    options = replace(OPTIONS, tables=str(tables), checkpoint=checkpoint, config=config)
    prepare_tables(open_store(str(tables)), options, new_tables=new_tables)


def ids(tables: Path) -> dict[str, str]:
    return table_ids(open_store(str(tables)))


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


@pytest.fixture
def begun(tmp_path: Path, tables: Path) -> str:
    """A checkpoint with a batch."""
    checkpoint = tmp_path / "checkpoint"
    prepare(tables, str(checkpoint), new_tables=False)
    save_table_ids(str(checkpoint), ids(tables))
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir()
        (checkpoint / folder / "0").write_text("v1\n{}", encoding="ascii")
    return str(checkpoint)


def test_a_new_checkpoint_gets_the_tables_that_are_missing(tables: Path, tmp_path: Path) -> None:
    prepare(tables, str(tmp_path / "checkpoint"), new_tables=False)
    assert ids(tables).keys() == {*NEEDED}


def test_a_checkpoint_with_batches_finds_its_tables(begun: str, tables: Path) -> None:
    before = ids(tables)
    prepare(tables, begun, new_tables=False)
    assert ids(tables) == before


@pytest.mark.parametrize("name", NEEDED)
def test_a_checkpoint_with_batches_gets_no_empty_table_in_place_of_its_own(name: str, begun: str, tables: Path) -> None:
    shutil.rmtree(tables / name)
    with pytest.raises(CheckpointError, match=f"has batches, but there is no table {name} .*--new-tables"):
        prepare(tables, begun, new_tables=False)
    assert not (tables / name).exists()

    prepare(tables, begun, new_tables=True)
    assert name in ids(tables)


def test_a_checkpoint_with_batches_refuses_an_empty_table_that_others_made(begun: str, tables: Path) -> None:
    shutil.rmtree(tables / "producer_id_quotas")
    prepare(tables, begun, new_tables=True)
    with pytest.raises(CheckpointError, match=r"producer_id_quotas .* is not the one that the stream started with"):
        prepare(tables, begun, new_tables=False)


def test_each_start_stores_the_settings_that_readers_need_once(tables: Path, tmp_path: Path) -> None:
    store, checkpoint = open_store(str(tables)), str(tmp_path / "checkpoint")
    assert store.settings() == StreamSettings(3600, 1.0)
    config = QuotaConfig(window_seconds=600, burst_windows=2.0)
    for _ in range(2):
        prepare(tables, checkpoint, new_tables=False, config=config)
    with open_store(str(tables)) as later:
        assert later.settings() == StreamSettings(600, 2.0, SERVERS)
        assert len(later.history("producer_id_metrics", 10)) == 2


NOW_S, OLDEST_MS = 1_790_000_000, 1_789_000_000_000


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


def test_zero_seconds_mean_no_learning_time() -> None:
    assert running.learning_time(KafkaConfig({"bootstrap.servers": "a:1"}), OPTIONS, 0) == (0, 0)


@pytest.mark.parametrize(
    ("steps_s", "polls", "back_s"),
    [((0.0, 0.0), 3, 0.0), ((3600.0, 0.0), 3, 0.0), ((0.0, -3600.0), 2, 3600.0), ((-4.0, -4.0), 3, 0.0)],
)
def test_a_step_back_ends_the_wait_and_other_steps_do_not(
    monkeypatch: pytest.MonkeyPatch, steps_s: Sequence[float], polls: int, back_s: float
) -> None:
    wall_s, asked = [1e9], [0]
    monkeypatch.setattr(time, "time", lambda: wall_s[0])
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)

    def has_ended() -> bool:
        asked[0] += 1
        if asked[0] > len(steps_s):
            return True
        wall_s[0] += steps_s[asked[0] - 1]
        return False

    assert await_step_back(has_ended) == back_s
    assert asked[0] == polls

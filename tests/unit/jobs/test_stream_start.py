"""The start of a stream: its tables, its learning time, and its wait for the end of its queries.

For streams whose tables are gone see tests/attack/test_tables_gone.py.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from broker.errors import TopicMissingError
from broker.kafka.config import KafkaConfig
from broker.kafka.offsets import OldestRecord
from broker.kafka.report_tail import DatedState
from jobs.stream import cluster
from jobs.stream.cluster import TOPIC_S, Cluster, await_topics, find_cluster, learning_end
from jobs.stream.running import Launch, await_step_back, prepare_tables, run_stream
from quota.config import QuotaConfig
from streaming.checkpoint.identity import load_or_create
from streaming.checkpoint.table_ids import NEEDED, save_table_ids, table_ids
from streaming.errors import CheckpointError, WindowTooShortError
from streaming.pipeline import StreamOptions
from tables.store.open import open_store
from tables.store.values import StreamSettings
from tests.kits.plugin_kit import state_report
from wire.plugin_reports import PluginState
from wire.topics import REPORTS

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


def test_each_start_stores_the_settings_that_readers_need_once(tables: Path, tmp_path: Path) -> None:
    store, checkpoint = open_store(str(tables)), str(tmp_path / "checkpoint")
    assert store.settings() == StreamSettings(3600, 1.0)
    config = QuotaConfig(window_seconds=600, burst_windows=2.0)
    for _ in range(2):
        prepare(tables, checkpoint, new_tables=False, config=config)
    with open_store(str(tables)) as later:
        assert later.settings() == StreamSettings(600, 2.0, SERVERS)
        assert len(later.history("producer_id_metrics", 10)) == 2


NOW_S, OLDEST_MS, HOUR_MS = 1_790_000_000, 1_789_000_000_000, 3_600_000
KAFKA = KafkaConfig({"bootstrap.servers": "a:1"})


@pytest.mark.parametrize(
    ("oldest", "new_checkpoint", "until_ms"),
    [
        # All records are there: the events of old producer ids say so themselves.
        (OldestRecord(OLDEST_MS, is_first=True), False, 0),
        (OldestRecord(None, is_first=True), False, 0),
        # Records are gone.
        (OldestRecord(OLDEST_MS, is_first=False), False, OLDEST_MS + HOUR_MS),
        (OldestRecord(None, is_first=False), False, NOW_S * 1000 + HOUR_MS),
        # The ledgers are lost.
        (OldestRecord(OLDEST_MS, is_first=True), True, NOW_S * 1000 + HOUR_MS),
    ],
)
def test_it_learns_for_a_window_unless_it_reads_all_records_there_ever_were(
    monkeypatch: pytest.MonkeyPatch, oldest: OldestRecord, new_checkpoint: bool, until_ms: int
) -> None:
    monkeypatch.setattr(cluster, "oldest_record", lambda *_: oldest)
    monkeypatch.setattr("time.time", lambda: NOW_S)

    assert learning_end(KAFKA, replace(OPTIONS, new_checkpoint=new_checkpoint)) == until_ms


class Topics:
    """A cluster on which topics appear with each look, in this order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: tuple[str, ...]) -> None:
        self.left, self.slept_s = list(found), 0.0
        monkeypatch.setattr(cluster, "require_topic", self.require)
        monkeypatch.setattr(time, "monotonic", lambda: self.slept_s)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def require(self, _config: object, topic: str) -> None:
        if topic not in self.left[0]:
            msg = f"no topic {topic}"
            raise TopicMissingError(msg)

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        if len(self.left) > 1:
            self.left.pop(0)


EVENTS, BOTH = ("events",), ("events", REPORTS)


@pytest.mark.parametrize(
    ("found", "has_reports", "waits_s"),
    [
        ([BOTH], True, 0),
        ([EVENTS], False, 0),
        ([(), (), BOTH], True, 2),
        # A plugin that has just made one topic makes the other.
        ([(), EVENTS, BOTH], True, 2),
        ([(), EVENTS], False, TOPIC_S + 1),
    ],
)
def test_it_waits_for_the_topics_that_a_plugin_makes(
    monkeypatch: pytest.MonkeyPatch, found: list[tuple[str, ...]], has_reports: bool, waits_s: float
) -> None:
    topics = Topics(monkeypatch, *found)

    assert await_topics({"bootstrap.servers": "a:1"}, "events") == has_reports
    assert topics.slept_s == waits_s


def test_without_a_topic_of_events_it_says_that_the_plugin_must_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Topics(monkeypatch, ())

    with pytest.raises(TopicMissingError, match=r"'events' does not exist on a:1, .*load the plugin .*docs/plugin\.md"):
        await_topics({"bootstrap.servers": "a:1"}, "events")
    assert "waits for topic events, which the plugin in the brokers makes" in capsys.readouterr().err


def cluster_with(monkeypatch: pytest.MonkeyPatch, *states: PluginState) -> Cluster:
    """What a stream finds on a cluster whose plugins report states."""
    found = {number: DatedState(state, NOW_S * 1000) for number, state in enumerate(states)}
    monkeypatch.setattr(cluster, "await_topics", lambda *_: True)
    monkeypatch.setattr(cluster, "has_topic", lambda *_: True)
    monkeypatch.setattr(cluster, "newest_states", lambda _: found)
    monkeypatch.setattr(cluster, "admin_client", lambda _: Mock(metadata=lambda: Mock(cluster_id="ours")))
    return find_cluster(KAFKA, OPTIONS)


def test_the_highest_next_producer_id_of_the_plugins_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [state_report(next_producer_id=each) for each in (4000, None, 6000)]

    assert cluster_with(monkeypatch, *states) == Cluster("ours", 6000, has_reports=True)
    assert cluster_with(monkeypatch, state_report()).next_producer_id is None


def test_a_window_that_is_too_short_for_the_plugins_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(WindowTooShortError, match="a window needs at least 10 repeats"):
        cluster_with(monkeypatch, state_report(repeat_ms=400_000))


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


def test_another_window_than_the_checkpoint_s_is_refused_before_anything_else_is_done(tmp_path: Path) -> None:
    options = replace(OPTIONS, tables=str(tmp_path / "tables"), checkpoint=str(tmp_path / "checkpoint"))
    load_or_create(options.of_checkpoint)

    with pytest.raises(CheckpointError, match="has window_seconds=3600, but this start sets 600"):
        run_stream(KAFKA, replace(options, config=QuotaConfig(window_seconds=600)), Launch())
    assert not (tmp_path / "tables").exists()

"""Tables that a stream makes at its start, and those it must not; for streams see tests/attack/test_tables_gone.py."""

import shutil
from pathlib import Path

import pytest

from jobs.stream.running import prepare_tables
from quota.config import QuotaConfig
from streaming.checkpoint.table_ids import NEEDED, save_table_ids, table_ids
from streaming.errors import CheckpointError
from tables.store.open import open_store
from tables.store.values import StreamSettings

CONFIG = QuotaConfig()


def prepare(tables: Path, checkpoint: str, *, new_tables: bool, config: QuotaConfig = CONFIG) -> None:
    prepare_tables(open_store(str(tables)), checkpoint, config, new_tables=new_tables)


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
    with pytest.raises(CheckpointError, match=r"producer_id_quotas .* is another one than the stream began with"):
        prepare(tables, begun, new_tables=False)


def test_each_start_stores_the_settings_that_readers_need_once(tables: Path, tmp_path: Path) -> None:
    store, checkpoint = open_store(str(tables)), str(tmp_path / "checkpoint")
    assert store.settings() == StreamSettings(3600, 1.0)
    config = QuotaConfig(window_seconds=600, burst_windows=2.0)
    for _ in range(2):
        prepare(tables, checkpoint, new_tables=False, config=config)
    with open_store(str(tables)) as later:
        assert later.settings() == StreamSettings(600, 2.0)
        assert len(later.history("producer_id_metrics", 10)) == 2

"""Tables that a stream makes at its start, and those it must not; for streams see tests/attack/test_tables_gone.py."""

import shutil
from pathlib import Path

import pytest

from jobs.stream.stream_tables import prepare_path_tables
from streaming.checkpoint.table_ids import NEEDED, path_ids, save_table_ids
from streaming.errors import CheckpointError


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


@pytest.fixture
def begun(tmp_path: Path, tables: Path) -> str:
    """A checkpoint with a batch."""
    checkpoint = tmp_path / "checkpoint"
    prepare_path_tables(str(tables), str(checkpoint), new_tables=False)
    save_table_ids(str(checkpoint), path_ids(str(tables)))
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir()
        (checkpoint / folder / "0").write_text("v1\n{}", encoding="ascii")
    return str(checkpoint)


def test_a_new_checkpoint_gets_the_tables_that_are_missing(tables: Path, tmp_path: Path) -> None:
    prepare_path_tables(str(tables), str(tmp_path / "checkpoint"), new_tables=False)
    assert path_ids(str(tables)).keys() == {*NEEDED}


def test_a_checkpoint_with_batches_finds_its_tables(begun: str, tables: Path) -> None:
    before = path_ids(str(tables))
    prepare_path_tables(str(tables), begun, new_tables=False)
    assert path_ids(str(tables)) == before


@pytest.mark.parametrize("name", NEEDED)
def test_a_checkpoint_with_batches_gets_no_empty_table_in_place_of_its_own(name: str, begun: str, tables: Path) -> None:
    shutil.rmtree(tables / name)
    with pytest.raises(CheckpointError, match=f"has batches, but there is no table {name} .*--new-tables"):
        prepare_path_tables(str(tables), begun, new_tables=False)
    assert not (tables / name).exists()

    prepare_path_tables(str(tables), begun, new_tables=True)
    assert name in path_ids(str(tables))


def test_a_checkpoint_with_batches_refuses_an_empty_table_that_others_made(begun: str, tables: Path) -> None:
    shutil.rmtree(tables / "producer_id_quotas")
    prepare_path_tables(str(tables), begun, new_tables=True)
    with pytest.raises(CheckpointError, match=r"producer_id_quotas .* is another one than the stream began with"):
        prepare_path_tables(str(tables), begun, new_tables=False)

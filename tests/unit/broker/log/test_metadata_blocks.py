"""Tests of blocks of producer ids in a metadata log; tests/broker/test_init_answers.py has a real log."""

from pathlib import Path

import pytest

from broker.errors import MetadataLogError
from broker.log.metadata_blocks import read_metadata_blocks
from lifecycle.producer_id_blocks import Block
from tests.kits.metadata_log_kit import OTHER_RECORD, batch, ids_record, write


def test_each_record_is_the_block_before_the_id_it_names(tmp_path: Path) -> None:
    first = batch(OTHER_RECORD, ids_record(1, 30, 1000), ids_record(2, 31, 2000))
    write(tmp_path, "00000000000000000000.log", first, batch(ids_record(1, 30, 3000), at_ms=5000))

    history = read_metadata_blocks(tmp_path)

    assert history.blocks == (
        Block(0, 1000, 1, 30, 1000),
        Block(1000, 1000, 2, 31, 1000),
        Block(2000, 1000, 1, 30, 5000),
    )
    assert (history.complete_from, history.skipped_batches) == (0, 0)


def test_the_folder_that_holds_the_log_will_do(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    write(tmp_path / "__cluster_metadata-0", "00000000000000000000.log", batch(ids_record(1, 30, 1000)))
    assert len(read_metadata_blocks(tmp_path).blocks) == 1


def test_where_retention_took_the_beginning_a_snapshot_says_how_far_the_ids_were(tmp_path: Path) -> None:
    write(tmp_path, "00000000000000000000-0000000001.checkpoint", batch(ids_record(-1, -1, 1000)))
    write(tmp_path, "00000000000000000500-0000000001.checkpoint", batch(OTHER_RECORD, ids_record(-1, -1, 7000)))
    write(tmp_path, "00000000000000000900-0000000001.checkpoint", batch(ids_record(-1, -1, 9000)))
    write(tmp_path, "00000000000000000500.log", batch(ids_record(3, 40, 8000)), batch(ids_record(3, 40, 9000)))

    history = read_metadata_blocks(tmp_path)

    assert [block.first for block in history.blocks] == [7000, 8000]
    assert history.complete_from == 7000


def test_without_a_snapshot_the_first_block_is_taken_to_be_of_the_usual_length(tmp_path: Path) -> None:
    write(tmp_path, "00000000000000000500.log", batch(ids_record(3, 40, 8000)))
    history = read_metadata_blocks(tmp_path)
    assert ([block.first for block in history.blocks], history.complete_from) == ([7000], 7000)


def test_a_torn_end_is_not_there_yet_and_a_damaged_batch_is_counted(tmp_path: Path) -> None:
    damaged = bytearray(batch(ids_record(1, 30, 2000)))
    damaged[-2] ^= 0xFF
    torn = batch(ids_record(1, 30, 4000))[:-5]
    log = (batch(ids_record(1, 30, 1000)), bytes(damaged), batch(ids_record(1, 30, 3000)), torn)
    write(tmp_path, "00000000000000000000.log", *log)

    history = read_metadata_blocks(tmp_path)

    # What was in the damaged one is in the length of the next.
    assert [(block.first, block.length) for block in history.blocks] == [(0, 1000), (1000, 2000)]
    assert history.skipped_batches == 1


@pytest.mark.parametrize("name", ["nothing", "notes.txt"])
def test_a_folder_without_a_log_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, b"")
    with pytest.raises(MetadataLogError, match="__cluster_metadata-0"):
        read_metadata_blocks(tmp_path)

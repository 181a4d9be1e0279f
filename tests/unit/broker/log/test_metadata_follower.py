from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import MetadataLogError
from broker.log import metadata_blocks
from broker.log.metadata_blocks import MetadataFollower
from tests.kits.metadata_log_kit import OTHER_RECORD, batch, ids_record, write

FIRST, SECOND, THIRD = (f"{offset:020d}.log" for offset in (0, 500, 900))


def firsts(follower: MetadataFollower, folder: Path, looks: int = 5) -> list[int]:
    return [block.first for _ in range(looks) for block in follower.read(folder)]


def append(folder: Path, name: str, content: bytes) -> None:
    with (folder / name).open("ab") as file:
        file.write(content)


def test_each_block_is_told_once_while_the_log_grows(tmp_path: Path) -> None:
    (tmp_path / "gc.log").write_text("not a segment")
    follower = MetadataFollower()
    write(tmp_path, FIRST, batch(OTHER_RECORD), batch(ids_record(1, 5, 1000)))
    assert firsts(follower, tmp_path) == [0]

    append(tmp_path, FIRST, batch(OTHER_RECORD, ids_record(2, 5, 2000)) + batch(OTHER_RECORD))
    assert firsts(follower, tmp_path) == [1000]
    assert not follower.is_behind
    assert firsts(follower, tmp_path) == []


def test_a_batch_that_is_not_whole_waits(tmp_path: Path) -> None:
    follower, whole = MetadataFollower(), batch(ids_record(1, 5, 1000))
    write(tmp_path, FIRST, whole[:-1])
    assert firsts(follower, tmp_path) == []

    append(tmp_path, FIRST, whole[-1:])
    assert firsts(follower, tmp_path) == [0]


def test_the_next_segment_follows(tmp_path: Path) -> None:
    follower = MetadataFollower()
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)))
    assert firsts(follower, tmp_path) == [0]

    append(tmp_path, FIRST, batch(ids_record(1, 5, 2000)))
    write(tmp_path, SECOND, batch(ids_record(1, 5, 3000)))

    assert firsts(follower, tmp_path) == [1000, 2000]


def test_segments_that_came_between_two_looks_are_read_in_order(tmp_path: Path) -> None:
    follower = MetadataFollower()
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)))
    assert firsts(follower, tmp_path) == [0]

    write(tmp_path, SECOND, batch(ids_record(1, 5, 2000)))
    write(tmp_path, THIRD, batch(ids_record(1, 5, 3000)))

    assert firsts(follower, tmp_path) == [1000, 2000]


def test_the_next_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    first = MetadataFollower()
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)))
    firsts(first, tmp_path)
    append(tmp_path, FIRST, batch(ids_record(1, 5, 2500)))

    (block,) = MetadataFollower(first.position).read(tmp_path)

    assert (block.first, block.length) == (1000, 1500)


def test_a_segment_that_was_deleted_is_passed_over(tmp_path: Path) -> None:
    follower = MetadataFollower()
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)))
    firsts(follower, tmp_path)
    (tmp_path / FIRST).unlink()
    write(tmp_path, SECOND, batch(ids_record(1, 5, 9000)))

    # What came between is not known: a block is as long as any.
    assert firsts(follower, tmp_path) == [8000]


def test_a_segment_that_lost_its_end_is_read_again(tmp_path: Path) -> None:
    follower = MetadataFollower()
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)), batch(ids_record(1, 5, 2000)))
    firsts(follower, tmp_path)

    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)))

    assert firsts(follower, tmp_path) == [0]


@pytest.mark.parametrize("rubbish", [b"x" * 200, bytes(8) + b"\xff\xff\xff\xff" + bytes(100)])
def test_rubbish_is_said_and_the_segment_read_again(tmp_path: Path, rubbish: bytes) -> None:
    follower = MetadataFollower()
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)))
    firsts(follower, tmp_path)
    append(tmp_path, FIRST, rubbish)
    with pytest.raises(MetadataLogError, match="can't read the metadata log in"):
        firsts(follower, tmp_path)

    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)), batch(ids_record(1, 5, 2000)))

    assert firsts(follower, tmp_path) == [0, 1000]


def test_zeros_behind_the_last_batch_are_no_batch_yet(tmp_path: Path) -> None:
    follower = MetadataFollower()
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)), bytes(4096))

    assert firsts(follower, tmp_path) == [0]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(13, 400))
def test_in_whatever_steps_it_is_read_the_blocks_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, others: list[int], step: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    batches = [
        batch(*[OTHER_RECORD] * count, ids_record(1, 5, 1000 * number + 1000)) for number, count in enumerate(others)
    ]
    write(folder, FIRST, *batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata_blocks, "STEP_BYTES", step)
        found = firsts(MetadataFollower(), folder, looks=3 * len(others))

    assert found == [1000 * number for number in range(len(others))]


def test_a_folder_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(MetadataLogError, match="no metadata log in"):
        MetadataFollower().read(tmp_path)

"""What the watch says of a batch, from its offsets and from what the topic still holds."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from state.learning import Learning
from streaming.checkpoint.data_loss import LOSS_FILE, LossDetector, load_loss_record
from streaming.checkpoint.next_producer_id import save_next_producer_id
from streaming.errors import CheckpointError, DataLossError

NOW_MS, WINDOW_MS = 1_790_000_000_000, 3_600_000


@dataclass
class FakeExtent:
    earliest: dict[int, int] = field(default_factory=dict)
    topic_id: str = "first"

    def __call__(self) -> "FakeExtent":
        return self


@pytest.fixture
def holds() -> FakeExtent:
    return FakeExtent({0: 0, 1: 0})


@pytest.fixture
def watch(tmp_path: Path, holds: FakeExtent) -> LossDetector:
    """A watch over two batches, the second with more of partition 1."""
    (tmp_path / "offsets").mkdir()
    watch = LossDetector(str(tmp_path), "t", WINDOW_MS, '{"t":{"0":5,"1":5}}', holds, lambda: NOW_MS)
    planned(watch, 0, p0=7, p1=9)
    planned(watch, 1, p0=7, p1=20)
    return watch


def planned(watch: LossDetector, batch_id: int, **ends: int) -> None:
    offsets = {"t": {name.removeprefix("p"): end for name, end in ends.items()}}
    Path(watch.checkpoint, "offsets", str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(offsets)}")


def said(watch: LossDetector, batch_id: int) -> list[str]:
    with pytest.raises(DataLossError):
        watch.check(batch_id)
    return [row["reason"] for row in watch.rows(batch_id)]


def test_losses_of_later_batches_are_reported_at_once(watch: LossDetector, holds: FakeExtent) -> None:
    holds.earliest = {0: 0, 1: 30}
    said(watch, 1)
    before = load_loss_record(watch.checkpoint)
    planned(watch, 2, p0=7, p1=30)
    planned(watch, 3, p0=7, p1=50)

    # Else each batch would make the stream learn anew, and new PIDs would go free.
    for batch_id in (1, 2, 3):
        watch.check(batch_id)

    assert load_loss_record(watch.checkpoint) == before
    holds.earliest = {0: 0, 1: 31}
    assert said(watch, 3) == ["data loss: offsets 30 to 30 of partition 1 were deleted before they were read"]


def test_losses_of_a_recreated_topic_are_not_those_of_the_old_one(watch: LossDetector, holds: FakeExtent) -> None:
    watch.check(0)
    holds.earliest = {0: 0, 1: 30}
    said(watch, 1)
    holds.earliest, holds.topic_id = {0: 0, 1: 0}, "second"
    planned(watch, 2, p0=7, p1=11)
    said(watch, 2)
    holds.earliest = {0: 0, 1: 12}
    planned(watch, 3, p0=7, p1=20)

    assert said(watch, 3) == ["data loss: offsets 11 to 11 of partition 1 were deleted before they were read"]


def test_a_gap_that_grows_before_the_batch_is_done_replaces_what_was_said(
    watch: LossDetector, holds: FakeExtent
) -> None:
    holds.earliest = {0: 0, 1: 12}
    said(watch, 1)
    holds.earliest = {0: 0, 1: 30}

    assert said(watch, 1) == ["data loss: offsets 9 to 29 of partition 1 were deleted before they were read"]


def test_the_first_batch_is_measured_from_where_the_stream_starts(watch: LossDetector, holds: FakeExtent) -> None:
    planned(watch, 0, p0=8, p1=8)
    holds.earliest = {0: 6, 1: 5}

    assert said(watch, 0) == ["data loss: offsets 5 to 5 of partition 0 were deleted before they were read"]


def test_offsets_that_go_back_and_partitions_that_vanish_are_said(watch: LossDetector, holds: FakeExtent) -> None:
    planned(watch, 1, p0=3)
    planned(watch, 2, p0=3, p1=20)
    holds.earliest = {0: 0}
    gone = "data loss: partition 1 is gone, with all unread records from offset"

    assert said(watch, 1) == [
        "data loss: partition 0 went back from offset 7 to 3: the records between are lost",
        f"{gone} 9 on",
    ]
    planned(watch, 1, p0=3, p1=12)
    assert said(watch, 2) == [f"{gone} 12 on"], "after the batch was planned"


def test_a_second_loss_extends_the_learning_and_leaves_the_first_as_it_was_said(
    watch: LossDetector, holds: FakeExtent
) -> None:
    for batch_id, end in ((2, 30), (3, 40)):
        planned(watch, batch_id, p0=7, p1=end)
    holds.earliest = {0: 0, 1: 12}
    first = said(watch, 1)
    holds.earliest = {0: 0, 1: 25}

    second = said(replace(watch, now_ms=lambda: NOW_MS + 60_000), 2)

    assert [row["reason"] for row in watch.rows(1)] == first
    assert second == ["data loss: offsets 20 to 24 of partition 1 were deleted before they were read"]
    assert load_loss_record(watch.checkpoint).learn_until_ms == NOW_MS + 60_000 + WINDOW_MS
    holds.earliest = {0: 0, 1: 35}
    said(replace(watch, now_ms=lambda: NOW_MS - 60_000), 3)
    assert load_loss_record(watch.checkpoint).learn_until_ms == NOW_MS + 60_000 + WINDOW_MS, "a clock set back"


def test_a_loss_is_learned_below_the_producer_id_that_came_next_when_it_was_found(
    watch: LossDetector, holds: FakeExtent
) -> None:
    holds.earliest = {0: 0, 1: 12}
    save_next_producer_id(watch.checkpoint, 4000)
    said(watch, 1)

    save_next_producer_id(watch.checkpoint, 9000)
    watch.check(1)
    assert load_loss_record(watch.checkpoint).learning == Learning(NOW_MS + WINDOW_MS, 4000)

    planned(watch, 2, p0=7, p1=40)
    holds.earliest = {0: 0, 1: 30}
    said(replace(watch, now_ms=lambda: NOW_MS + 60_000), 2)
    assert load_loss_record(watch.checkpoint).learning == Learning(NOW_MS + 60_000 + WINDOW_MS, 9000)


def test_a_damaged_loss_record_is_refused_with_its_name(watch: LossDetector) -> None:
    Path(watch.checkpoint, LOSS_FILE).write_text("{")

    with pytest.raises(
        CheckpointError, match=f"{LOSS_FILE} can't be read .*: restore it from a backup, or start with an empty folder"
    ):
        load_loss_record(watch.checkpoint)

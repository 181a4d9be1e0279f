"""The facts of a batch: what its tasks find, also when it is repeated, and what the next batch takes over."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quota.limits import Limit, Quotas
from streaming.batch import tasks
from streaming.batch.context import FOLDER, MAX_EVENT_TIME, carried_before, read_context, written_batches
from streaming.batch.tasks import TaskBatch
from streaming.batch.tracked_principals import FORGOTTEN, TRACKED, code_of
from streaming.checkpoint import own_files
from streaming.checkpoint.next_producer_id import save_next_producer_id
from streaming.errors import CheckpointError
from tests.kits.batch_kit import begin, run_batch


def default(rate: float) -> Quotas:
    return Quotas(default=Limit(rate, "default", 0))


def enter_task(monkeypatch: pytest.MonkeyPatch, batch_id: int | None, attempt_id: int) -> None:
    batch = None if batch_id is None else str(batch_id)
    task = SimpleNamespace(taskAttemptId=lambda: attempt_id, getLocalProperty=lambda _: batch)
    monkeypatch.setattr(tasks, "TaskContext", SimpleNamespace(get=lambda: task))


def test_the_tasks_of_a_batch_find_what_the_driver_wrote_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_batch(tmp_path, 0, {TRACKED: [code_of("User:a")], MAX_EVENT_TIME: [(4, 900)]}, default(1.0))
    begin(tmp_path, 1, default(2.0), began_ms=1_800_000_000_000)

    found = {}
    # With Spark Connect, tasks know no number: they belong to the newest batch.
    for attempt_id, batch_id in enumerate((0, 1, None)):
        enter_task(monkeypatch, batch_id, 1000 + attempt_id)
        found[batch_id] = TaskBatch(str(tmp_path)).context()

    assert [each.quotas for each in found.values()] == [default(1.0), default(2.0), default(2.0)]
    assert found[1].begin_ms == 1_800_000_000_000
    assert (found[1].starts, found[1].ends) == ({"produce-events": {0: 5, 1: 7}}, {"produce-events": {0: 6, 1: 7}})
    assert found[1].partitions == 2
    assert found[0].before.tracked.holds(["User:a"]).tolist() == [False]
    assert found[1].before.tracked.holds(["User:a", "User:b"]).tolist() == [True, False]
    assert found[1].before.event_times == {4: 900}


def test_a_repeated_batch_finds_the_facts_of_its_first_attempt(tmp_path: Path) -> None:
    run_batch(tmp_path, 0, {TRACKED: [code_of("User:a")]})
    save_next_producer_id(str(tmp_path), 4000)
    first = begin(tmp_path, 1, default(1.0))
    save_next_producer_id(str(tmp_path), 5000)

    # It crashes in the batch, then after the tables have its rows.
    assert begin(tmp_path, 1, default(2.0)) == first
    run_batch(tmp_path, 1, {TRACKED: [code_of("User:b")]}, default(2.0))
    again = begin(tmp_path, 1, default(2.0))
    assert (again.quotas, again.next_producer_id, again.before) == (default(1.0), 4000, first.before)
    run_batch(tmp_path, 1, {TRACKED: [code_of("User:b"), code_of("User:c")]}, default(2.0))

    following = begin(tmp_path, 2, default(2.0))
    assert (following.quotas, following.next_producer_id) == (default(2.0), 5000)
    assert len(following.before.tracked) == 3


def test_a_file_of_other_records_is_not_taken_for_that_of_the_batch(tmp_path: Path) -> None:
    run_batch(tmp_path, 0)
    begin(tmp_path, 1, default(1.0))
    assert begin(tmp_path, 1, default(2.0), began_ms=1_790_000_000_001).quotas == default(2.0)


def test_what_a_batch_does_not_report_stays(tmp_path: Path) -> None:
    first: dict[str, list[Any]] = {
        TRACKED: [code_of("User:a"), code_of("User:b")],
        MAX_EVENT_TIME: [(0, 900), (1, 1800), (1, 900)],
    }
    run_batch(tmp_path, 0, first | {"throttle_decisions": [{}], "producer_id_metrics": [{}]})
    second: dict[str, list[Any]] = {
        FORGOTTEN: [code_of("User:a")],
        MAX_EVENT_TIME: [(0, 1800)],
        "producer_id_metrics": [{}],
    }
    run_batch(tmp_path, 1, second)

    carried = carried_before(str(tmp_path), 2)
    assert carried.tracked.holds(["User:a", "User:b"]).tolist() == [False, True]
    assert carried.event_times == {0: 1800, 1: 1800}
    assert carried.written == {"throttle_decisions": 0, "producer_id_metrics": 1}


def test_only_the_files_that_a_batch_may_need_are_kept(tmp_path: Path) -> None:
    for batch in range(10):
        run_batch(tmp_path, batch)

    assert sorted(file.stem for file in (tmp_path / FOLDER).iterdir()) == ["7", "8", "9"]


def test_a_batch_whose_predecessor_has_not_ended_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "APPEARS_WITHIN_S", 0.0)
    begin(tmp_path, 0)
    with pytest.raises(CheckpointError, match=r"0\.msgpack can't be read \(the batch has not ended\)"):
        begin(tmp_path, 1)


def test_the_batches_that_wrote_are_known_even_if_the_newest_batch_has_no_file_yet(tmp_path: Path) -> None:
    run_batch(tmp_path, 0, {"throttle_decisions": [{}]})
    run_batch(tmp_path, 1, {"producer_id_metrics": [{}]})
    for newest in (tmp_path / "offsets" / "1", tmp_path / "offsets" / "2"):
        newest.write_text((tmp_path / "offsets" / "1").read_text())
        assert written_batches(str(tmp_path)) == {"throttle_decisions": 0, "producer_id_metrics": 1}


def test_a_file_that_another_stream_has_deleted_is_said_to_be_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "APPEARS_WITHIN_S", 0.0)
    for batch in range(4):
        run_batch(tmp_path, batch)
    with pytest.raises(CheckpointError, match="another stream runs on checkpoint"):
        read_context(str(tmp_path), 0)

from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.batch import tasks
from streaming.batch.tasks import TaskBatch, batch_of_task


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    (tmp_path / "offsets").mkdir()
    for number in (6, 7):
        (tmp_path / "offsets" / str(number)).write_text('v1\n{}\n{"produce-events":{"0":5}}')
    return str(tmp_path)


def inside(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> None:
    context = SimpleNamespace(get=lambda: SimpleNamespace(getLocalProperty=properties.get))
    monkeypatch.setattr(tasks, "TaskContext", context)


def test_a_task_over_spark_connect_belongs_to_the_newest_batch_that_began(
    checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside(monkeypatch, {})
    assert batch_of_task(checkpoint) == 7


def test_before_the_first_batch_there_is_batch_0(tmp_path: Path) -> None:
    assert batch_of_task(str(tmp_path)) == 0


def test_a_batch_began_when_spark_says_so_beside_its_offsets(checkpoint: str) -> None:
    assert TaskBatch(checkpoint).begin_ms() is None

    began = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1790000000000}\n{"produce-events":{"0":5}}'
    Path(checkpoint, "offsets", "7").write_text(began)

    assert TaskBatch(checkpoint).begin_ms() == 1_790_000_000_000

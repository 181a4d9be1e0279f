"""The quotas of a batch: which hold, and how the tasks come to know them."""

import logging
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from quota.limits import UNLIMITED, Limit, Quotas
from streaming.batch import batch_quotas, tasks
from streaming.batch.batch_quotas import FOLDER, BatchQuotas, quotas_in_force, read_quotas
from streaming.batch.tasks import TaskBatch
from streaming.checkpoint import own_files
from streaming.checkpoint.next_producer_id import save_next_producer_id
from streaming.errors import CheckpointError
from tables.errors import TableNotFoundError
from tables.quotas.quota_rows import entries_in_force

ROWS = st.lists(
    st.tuples(st.sampled_from([None, "alice", "bob", "a:b"]), st.floats(0.5, 1e6), st.integers(0, 50)), max_size=12
)


@pytest.fixture
def spark() -> SparkSession:
    return Mock(spec=SparkSession)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchQuotas:
    """A checkpoint beside tables whose quotas are those of `said`."""
    monkeypatch.setattr(batch_quotas, "read_quotas", lambda _spark, _tables, _id: said.quotas)
    return BatchQuotas(str(tmp_path), "./tables")


said = SimpleNamespace(quotas=Quotas())


def in_attempt(monkeypatch: pytest.MonkeyPatch, batch_id: int, attempt_id: int) -> None:
    task = SimpleNamespace(taskAttemptId=lambda: attempt_id, getLocalProperty=lambda _: str(batch_id))
    monkeypatch.setattr(tasks, "TaskContext", SimpleNamespace(get=lambda: task))


def row(name: str | None, rate: object, at_ms: int, **more: object) -> dict[str, object]:
    at = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    return {"entity_type": "user", "entity_name": name, "producer_ids_rate": rate, "updated_at": at} | more


def in_force(rows: Iterable[dict[str, object]]) -> Quotas:
    return quotas_in_force(entries_in_force(rows)[0])


@given(rows=ROWS, principal=st.sampled_from(["User:alice", "User:bob", "User:a:b", "User:none", "unknown"]))
def test_the_newest_row_of_the_user_holds_else_that_of_the_default_else_none(
    rows: list[tuple[str | None, float, int]], principal: str
) -> None:
    limit = in_force(row(*each) for each in rows).find(principal)

    own = [(at_ms, rate) for name, rate, at_ms in rows if name == principal.removeprefix("User:")]
    default = [(at_ms, rate) for name, rate, at_ms in rows if name is None]
    candidates, source = (own, "user") if own else (default, "default")
    if not candidates:
        assert limit == UNLIMITED
    else:
        assert (limit.source, limit.updated_at_ms) == (source, max(candidates)[0])
        assert (limit.updated_at_ms, limit.producer_ids_rate) in candidates


@pytest.mark.parametrize(
    "bad",
    [
        *({"producer_ids_rate": rate} for rate in (0.0, -5.0, float("nan"), float("inf"), 1e12, 1e300, None)),
        *({"producer_ids_burst": burst} for burst in (0.0, -5.0, float("nan"), float("inf"), 1e12, "600", True)),
        {"producer_ids_rate": "100"},
        {"producer_ids_rate": None, "producer_ids_burst": 600.0},
        {"updated_at": None},
        {"entity_type": "client"},
        {"entity_type": None},
    ],
)
def test_a_row_that_can_be_no_quota_is_passed_over_and_said(bad: dict[str, object]) -> None:
    rows = [row("alice", 100.0, 5) | bad, row("alice", 7.0, 1)]

    assert in_force(rows).find("User:alice").producer_ids_rate == 7.0
    (fault,) = entries_in_force(rows)[1]
    assert fault.startswith("a row of quotas is invalid: ")


def test_a_burst_comes_with_its_rate_and_a_row_without_the_column_has_none() -> None:
    quotas = in_force([row("alice", 10.0, 5, producer_ids_burst=600), row("bob", 7.0, 1)])

    assert [quotas.find(name).producer_ids_burst for name in ("User:alice", "User:bob")] == [600.0, None]


def test_rows_that_can_be_no_quotas_are_logged_once_and_not_one_by_one(
    caplog: pytest.LogCaptureFixture, spark: Mock
) -> None:
    rows = [row(f"u{number}", -5.0, 1) for number in range(40)]
    spark.read.table().select().toArrow().to_pylist.return_value = rows
    with caplog.at_level(logging.WARNING, "streaming"):
        for _ in range(3):
            read_quotas(spark, "main.pid_quota")
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == "30 more rows of quotas like these"


def test_of_duplicates_it_is_said_which_holds() -> None:
    rows = [row("alice", 100.0, 5), row("alice", 7.0, 1), row(None, 1.0, 1), row(None, 2.0, 2)]
    assert entries_in_force(rows)[1] == [
        "the default has 2 quota rows: the newest is in force, 2 per window",
        "user 'alice' has 2 quota rows: the newest is in force, 100 per window",
    ]


def test_a_missing_table_is_told_not_taken_for_no_quota(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(TableNotFoundError):
        read_quotas(spark, str(tmp_path))


def test_the_tasks_of_a_batch_find_what_the_driver_read_for_it(
    folder: BatchQuotas, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch_id, rate in ((3, 1.0), (4, 1.0), (5, 2.0), (6, 9.0), (7, 9.0)):
        said.quotas = Quotas(default=Limit(rate, "default", 0))
        folder.publish(spark, batch_id)

    found = {}
    for batch_id in (5, 6, 7):
        in_attempt(monkeypatch, batch_id, batch_id)
        found[batch_id] = TaskBatch(folder.checkpoint).quotas().find("User:a").producer_ids_rate
    assert found == {5: 2.0, 6: 9.0, 7: 9.0}
    assert len(list(Path(folder.checkpoint, FOLDER).iterdir())) == 2


def test_a_batch_that_is_repeated_goes_by_the_quotas_in_force_then(
    folder: BatchQuotas, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attempt_id, rate in enumerate((1.0, 2.0)):
        said.quotas = Quotas(default=Limit(rate, "default", 0))
        folder.publish(spark, 3)
        in_attempt(monkeypatch, 3, attempt_id)
        assert TaskBatch(folder.checkpoint).quotas().find("User:a").producer_ids_rate == rate


def test_a_batch_keeps_the_next_producer_id_that_was_known_when_it_first_began(
    folder: BatchQuotas, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    said.quotas, found = Quotas(), list[int | None]()
    for attempt_id, (batch_id, reported) in enumerate([(0, None), (1, 4000), (1, 5000), (2, 5000)]):
        save_next_producer_id(folder.checkpoint, reported)
        folder.publish(spark, batch_id)
        in_attempt(monkeypatch, batch_id, attempt_id)
        found.append(TaskBatch(folder.checkpoint).next_producer_id())

    assert found == [None, 4000, 4000, 5000]


def test_a_worker_that_does_not_see_the_checkpoint_ends_the_batch_instead_of_enforcing_nothing(
    folder: BatchQuotas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "APPEARS_WITHIN_S", 0.0)
    in_attempt(monkeypatch, 0, 77)
    with pytest.raises(CheckpointError, match="must see the same checkpoint"):
        TaskBatch(folder.checkpoint).quotas()

"""The quotas of a batch: which of the table's rows hold."""

import logging
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from quota.limits import UNLIMITED, Quotas
from streaming.batch.quotas_in_force import quotas_in_force, read_quotas
from tables.errors import TableNotFoundError
from tables.quotas.quota_entry import entries_in_force

ROWS = st.lists(
    st.tuples(st.sampled_from([None, "alice", "bob", "a:b"]), st.floats(0.5, 1e6), st.integers(0, 50)), max_size=12
)


@pytest.fixture
def spark() -> SparkSession:
    return Mock(spec=SparkSession)


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

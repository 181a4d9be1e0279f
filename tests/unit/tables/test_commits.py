"""Commits that conflict with another writer's: retried with growing pauses, and only then."""

import sys
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tables.errors import CatalogError
from tables.store.commits import ATTEMPTS, is_conflict, retry_conflicts
from tables.store.open import open_store
from tests.kits import warehouse_kit


class Commit:
    """Fails so many times, then returns how often it was called."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures, self.error, self.calls = failures, error, 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return self.calls


CONFLICT = CommitFailedError("Metadata changed since last commit.")


def test_a_commit_that_always_conflicts_raises_its_conflict_after_the_last_attempt() -> None:
    commit = Commit(ATTEMPTS, CONFLICT)
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        retry_conflicts(commit, sleep=lambda _: None)
    assert commit.calls == ATTEMPTS


def test_an_error_that_is_no_conflict_is_raised_at_once() -> None:
    commit = Commit(1, OSError("disk full"))
    with pytest.raises(OSError, match="disk full"):
        retry_conflicts(commit, sleep=lambda _: pytest.fail("slept"))
    assert commit.calls == 1


def test_deltalake_reports_a_lost_race_as_a_conflict(tmp_path: Path) -> None:
    # Given two who opened the same version.
    write_deltalake(tmp_path, pa.table({"a": [1]}))
    mine, theirs = DeltaTable(tmp_path), DeltaTable(tmp_path)
    theirs.alter.set_table_properties({"delta.appendOnly": "true"})
    # When the slower one commits, then it is told so.
    with pytest.raises(CommitFailedError) as raised:
        mine.alter.set_table_properties({"delta.appendOnly": "false"})
    assert is_conflict(raised.value)


@pytest.mark.parametrize(
    ("text", "conflict"),
    [
        ("An error occurred while calling o9.save.\n: io.delta.exceptions.MetadataChangedException: it changed", True),
        ("[DELTA_METADATA_CHANGED] MetadataChangedException: the metadata was changed", True),
        ("[DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT] Transaction conflict detected.", True),
        ("[DELTA_PROTOCOL_CHANGED] ProtocolChangedException: the protocol version was changed", True),
        ("[DELTA_TABLE_NOT_FOUND] Delta table doesn't exist.", False),
        ("", False),
    ],
)
def test_spark_and_a_warehouse_are_understood_by_the_text_of_their_errors(text: str, conflict: bool) -> None:
    assert is_conflict(RuntimeError(text)) is conflict


def test_where_deltalake_is_not_installed_an_error_of_the_catalog_keeps_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A Databricks runtime has none of it.
    warehouse_kit.use(monkeypatch)
    for name in ("deltalake", "deltalake.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)

    with open_store("prod.pid_quota") as store, pytest.raises(CatalogError, match="the catalog refused"):
        store.query("SELECT no_such_column FROM throttle_decisions", datetime.now(timezone.utc))

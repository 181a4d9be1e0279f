"""Rows of small files that a long-running reader keeps: the same rows as without, and each file is read once."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from duckdb import DuckDBPyConnection

from tables.query.sql_query import opened
from tables.store import duck_tables, kept_files
from tables.store.kept_files import KeptFiles, KeptTables
from tables.store.path_tables import table_path
from tables.store.values import RowFilter
from tests.unit.jobs.table_rows import NOON, append, metrics

TABLE = "producer_id_metrics"
DAY = NOON - timedelta(days=1)
LAST_DAY = RowFilter("window_end > :day", {"day": DAY}, newer_than=("window_end", DAY))


@pytest.fixture
def kept() -> KeptTables:
    return defaultdict(KeptFiles)


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each read opened."""
    found: list[int] = []
    select = duck_tables.select_files

    def counted(connection: DuckDBPyConnection, files: Sequence[str], kinds: Mapping[str, str | None]) -> str:
        found.append(len(files))
        return select(connection, files, kinds)

    monkeypatch.setattr(duck_tables, "select_files", counted)
    return found


def names(tables: Path, kept: KeptTables, rows: RowFilter = LAST_DAY) -> list[str]:
    with opened(str(tables), NOON, {TABLE: rows}, kept) as relations:
        return [row[0] for row in relations.ask("SELECT principal FROM producer_id_metrics ORDER BY principal").rows]


def add(tables: Path, *principals: str, days_ago: int = 0) -> None:
    for principal in principals:
        append(tables, TABLE, metrics(principal, NOON - timedelta(days=days_ago)))


def test_each_file_is_read_once(tmp_path: Path, kept: KeptTables, files_read: list[int]) -> None:
    add(tmp_path, "a", "b")
    assert names(tmp_path, kept) == ["a", "b"]
    add(tmp_path, "c")
    assert names(tmp_path, kept) == names(tmp_path, kept) == ["a", "b", "c"]
    assert files_read == [2, 1]


def test_each_reader_gets_the_rows_of_its_filter_and_reads_what_no_other_has(
    tmp_path: Path, kept: KeptTables, files_read: list[int]
) -> None:
    add(tmp_path, "old", days_ago=3)
    add(tmp_path, "new")
    assert names(tmp_path, kept) == ["new"]
    assert names(tmp_path, kept, RowFilter()) == ["new", "old"]
    assert names(tmp_path, kept) == ["new"]
    assert files_read == [1, 1]


def test_a_column_that_the_table_gets_meanwhile_is_there_for_kept_rows(tmp_path: Path, kept: KeptTables) -> None:
    add(tmp_path, "a")
    assert names(tmp_path, kept) == ["a"]
    table = DeltaTable(table_path(str(tmp_path), TABLE))
    table.alter.add_columns(Field("later", PrimitiveType("string"), nullable=True))
    with opened(str(tmp_path), NOON, {TABLE: LAST_DAY}, kept) as relations:
        assert relations.ask("SELECT principal, later FROM producer_id_metrics").rows == (("a", None),)


def test_rows_of_files_that_were_compacted_or_deleted_do_not_stay(
    tmp_path: Path, kept: KeptTables, files_read: list[int]
) -> None:
    add(tmp_path, "a", "b")
    assert names(tmp_path, kept) == ["a", "b"]
    table = DeltaTable(table_path(str(tmp_path), TABLE))
    table.optimize.compact()
    assert names(tmp_path, kept) == ["a", "b"]
    table.delete("principal = 'a'")
    assert names(tmp_path, kept) == ["b"]
    assert files_read == [2, 1, 1]


@pytest.mark.parametrize("limit", ["SMALL_BYTES", "MAX_KEPT_BYTES"])
def test_rows_above_a_limit_are_read_each_time(
    tmp_path: Path, kept: KeptTables, files_read: list[int], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(kept_files, limit, 0)
    monkeypatch.setattr(duck_tables, "SMALL_BYTES", kept_files.SMALL_BYTES)
    add(tmp_path, "a", "b")
    for _ in range(2):
        assert names(tmp_path, kept) == ["a", "b"]
    assert sum(files_read) == 4

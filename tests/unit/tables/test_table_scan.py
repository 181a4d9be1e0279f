"""How `pid-quota sql` reads path tables: all rows whoever wrote them, no other file, and without loading pandas."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Schema

from tables.errors import QueryError
from tables.query.sql_query import query
from tables.schema.specs import TABLES
from tables.store.path_tables import open_table
from tests.unit.jobs.table_rows import NOON, append, decision, seconds

DECISIONS = "throttle_decisions"


def asked(tables: Path | str, sql: str) -> list[dict[str, Any]]:
    return query(str(tables), sql, NOON).records()


def test_files_from_before_a_column_was_added_have_none_in_it(tmp_path: Path) -> None:
    schema = TABLES[DECISIONS].schema
    later = ("client_ids", "addresses", "quota_updated_at", "sample_pids")
    older = pa.schema([column for column in schema if column.name not in later])
    row = decision("User:before", NOON)
    old = {name: value for name, value in row.items() if name not in later}
    write_deltalake(tmp_path / DECISIONS, pa.Table.from_pylist([old], schema=older))
    before = "SELECT principal, client_ids, addresses, sample_pids FROM throttle_decisions ORDER BY principal DESC"

    open_table(str(tmp_path), DECISIONS).alter.add_columns(
        [field for field in Schema.from_arrow(schema).fields if field.name in later]
    )
    nothing = dict.fromkeys(("client_ids", "addresses", "sample_pids"))
    assert asked(tmp_path, before) == [{"principal": "User:before"} | nothing]

    append(tmp_path, DECISIONS, decision("User:after", NOON))
    rows = asked(tmp_path, before)
    assert [row["client_ids"] for row in rows] == [None, {"rdkafka": 1}]
    assert [row["addresses"] for row in rows] == [None, {"10.0.0.7": 1}]


@pytest.mark.parametrize("folder", ["plain", "with space", "o'neill", "a[b]", "ümlaut", "day=1"])
def test_whatever_the_folder_is_called_the_values_are_the_same(tmp_path: Path, folder: str) -> None:
    append(tmp_path / "first", DECISIONS, *[decision("User:m", NOON + seconds(number)) for number in range(3)])
    # deltalake makes no table in a folder with brackets, but it reads one.
    (tmp_path / "first").rename(tmp_path / folder)
    rows = asked(tmp_path / folder, "SELECT * FROM throttle_decisions ORDER BY decided_at")
    assert [row["decided_at"] for row in rows] == [NOON + seconds(number) for number in range(3)]
    assert rows[0] == decision("User:m", NOON) | {"client_ids": {"rdkafka": 1}, "addresses": {"10.0.0.7": 1}}


def test_a_table_that_is_more_than_its_files_is_read_too(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([decision("User:m", NOON)], schema=TABLES[DECISIONS].schema)
    write_deltalake(tmp_path / DECISIONS, rows, partition_by=["action"])
    assert asked(tmp_path, "SELECT action FROM throttle_decisions") == [{"action": "THROTTLE"}]


def test_what_was_deleted_is_not_there_though_its_file_is(tmp_path: Path) -> None:
    append(tmp_path, DECISIONS, decision("User:a", NOON))
    append(tmp_path, DECISIONS, decision("User:b", NOON))
    DeltaTable(tmp_path / DECISIONS).delete("principal = 'User:a'")
    assert asked(tmp_path, "SELECT principal FROM throttle_decisions") == [{"principal": "User:b"}]


def test_no_file_beside_those_of_the_table_can_be_read(tmp_path: Path) -> None:
    append(tmp_path, DECISIONS, decision("User:m", NOON))
    (file,) = (tmp_path / DECISIONS).glob("*.parquet")
    shutil.copy(file, tmp_path / DECISIONS / "secret.parquet")
    (tmp_path / "secret.txt").write_text("secret")
    for source in (f"read_text('{tmp_path / 'secret.txt'}')", f"read_parquet('{file.with_name('secret.parquet')}')"):
        with pytest.raises(QueryError, match="disabled"):
            asked(tmp_path, f"FROM {source}, throttle_decisions")


def test_a_query_does_not_wait_for_pandas_to_load(tmp_path: Path) -> None:
    append(tmp_path, DECISIONS, decision("User:m", NOON))
    code = (
        "import sys; from jobs import cli; "
        f"code = cli.run(['sql', 'TABLE current_throttles', '--tables', {str(tmp_path)!r}]); "
        "sys.exit(code or ('pandas' in sys.modules and 'pandas was loaded'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "User:m" in done.stdout

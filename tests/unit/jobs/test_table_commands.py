"""`pid-quota tables`: creation, output as text and JSON, and updates of the tables."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tables.schema.specs import TABLES
from tables.store.path_tables import create_missing, open_table
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.upkeep_kit import DECISIONS, METRICS, QUOTAS, versions
from tests.unit.jobs.table_rows import NOON, append, decision, seconds


def asked(pid_quota: PidQuota, *arguments: object) -> Any:
    return json.loads(printed(pid_quota("tables", *arguments, "--json")))


def test_tables_are_made_once(pid_quota: PidQuota, tmp_path: Path) -> None:
    first = asked(pid_quota, "create", "--tables", tmp_path / "new")
    made = versions(tmp_path / "new")

    second = asked(pid_quota, "create", "--tables", tmp_path / "new")

    assert first == [{"table": name, "done": "created"} for name in TABLES]
    assert second == [{"table": name, "done": "unchanged"} for name in TABLES]
    assert versions(tmp_path / "new") == made


def test_each_table_says_what_it_holds(pid_quota: PidQuota, tmp_path: Path) -> None:
    rows = [decision("User:m", NOON + seconds(number)) for number in (0, 30, 60)]
    append(tmp_path, DECISIONS, *rows)

    result = {row["table"]: row for row in asked(pid_quota, "describe", "--tables", tmp_path)}

    assert list(result) == list(TABLES)
    about = result[DECISIONS]
    assert (about["rows"], about["files"], about["version"]) == (3, 1, versions(tmp_path)[DECISIONS])
    assert about["bytes"] > 0
    assert (about["oldest"], about["newest"]) == ("2026-01-15T12:00:00+00:00", "2026-01-15T12:01:00+00:00")
    assert (result[METRICS]["rows"], result[METRICS]["oldest"], result[QUOTAS]["newest"]) == (0, None, None)


def test_rows_without_statistics_are_counted(pid_quota: PidQuota, tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    table = open_table(str(tmp_path), QUOTAS)
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "0"})
    row = {"entity_type": "user", "producer_ids_rate": 5.0, "updated_at": NOON}
    write_deltalake(table.table_uri, pa.Table.from_pylist([row], schema=TABLES[QUOTAS].schema), mode="append")
    (about,) = asked(pid_quota, "describe", QUOTAS, "--tables", tmp_path)
    assert about["rows"] == 1


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_its_columns_mean(pid_quota: PidQuota, tmp_path: Path, name: str) -> None:
    create_missing(str(tmp_path))

    (result,) = asked(pid_quota, "describe", name, "--tables", tmp_path)

    assert result["comment"] == TABLES[name].comment
    assert [(column["column"], column["comment"]) for column in result["columns"]] == [
        (field.name, field.metadata[b"comment"].decode()) for field in TABLES[name].schema
    ]
    assert [column["nullable"] for column in result["columns"]] == [field.nullable for field in TABLES[name].schema]


def test_people_get_tables(pid_quota: PidQuota, tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    _, every, _ = pid_quota("tables", "describe", "--tables", tmp_path)
    _, one, _ = pid_quota("tables", "describe", DECISIONS, "--tables", tmp_path)
    assert [line.split()[0] for line in every.splitlines()] == ["table", *TABLES]
    assert "map<string, long>" in one
    assert TABLES[DECISIONS].comment in one


def test_tables_of_an_earlier_version_are_described_without_those_it_did_not_have(
    pid_quota: PidQuota, tmp_path: Path
) -> None:
    DeltaTable.create(str(tmp_path / METRICS), TABLES[METRICS].schema)
    assert [row["table"] for row in asked(pid_quota, "describe", "--tables", tmp_path)] == [METRICS]


@pytest.mark.parametrize("arguments", [(), (DECISIONS,)])
def test_a_folder_without_tables_is_one_clear_line(
    pid_quota: PidQuota, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert "pid-quota tables create" in one_error(pid_quota("tables", "describe", *arguments, "--tables", tmp_path))


def test_a_table_that_nobody_knows_is_named(pid_quota: PidQuota, tmp_path: Path) -> None:
    err = one_error(pid_quota("tables", "describe", "decisions", "--tables", tmp_path))
    assert "'decisions'" in err
    assert DECISIONS in err

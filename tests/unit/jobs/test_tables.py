"""The tables as `deltalake` makes them: schemas, comments, constraints, and errors of their creation."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from quota.allowance import MAX_PRODUCER_IDS_RATE
from tables.errors import TableError, TableVersionError
from tables.schema.specs import TABLES, TABLES_VERSION
from tables.store.open import is_catalog
from tables.store.path_tables import create_missing, open_table, table_path
from tables.store.values import require_version
from tests.unit.jobs.table_rows import NOON


@pytest.fixture
def tables(tmp_path: Path) -> str:
    create_missing(str(tmp_path / "tables"))
    return str(tmp_path / "tables")


def quota_row(rate: float = 5.0, **values: Any) -> Any:
    row = {
        "entity_type": "user",
        "entity_name": None,
        "producer_ids_rate": rate,
        "updated_at": NOON,
        "updated_by": None,
    }
    return pa.Table.from_pylist([row | values], schema=TABLES["producer_id_quotas"].schema)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_columns_types_and_comments_of_its_schema(tables: str, name: str) -> None:
    made = open_table(tables, name)
    assert made.to_pyarrow_table().schema.names == TABLES[name].schema.names
    for column, field in zip(TABLES[name].schema, made.schema().fields, strict=True):
        assert field.metadata["comment"] == column.metadata[b"comment"].decode()
        assert field.nullable == column.nullable
    assert made.metadata().description == TABLES[name].comment


@pytest.mark.parametrize("name", TABLES)
def test_a_table_needs_no_feature_that_only_newer_writers_know(tables: str, name: str) -> None:
    protocol = open_table(tables, name).protocol()
    assert protocol.min_reader_version == 1
    assert protocol.min_writer_version <= 3


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), -float("inf"), MAX_PRODUCER_IDS_RATE])
def test_a_quota_out_of_range_is_refused_by_the_table_itself(tables: str, rate: float) -> None:
    with pytest.raises(DeltaError, match="validation check"):
        write_deltalake(table_path(tables, "producer_id_quotas"), quota_row(rate), mode="append")


def test_a_quota_of_another_entity_type_is_refused_by_the_table_itself(tables: str) -> None:
    with pytest.raises(DeltaError, match="validation check"):
        write_deltalake(table_path(tables, "producer_id_quotas"), quota_row(entity_type="client-id"), mode="append")


def test_tables_that_are_there_stay_as_they_are(tables: str) -> None:
    write_deltalake(table_path(tables, "producer_id_quotas"), quota_row(), mode="append")
    versions = {name: open_table(tables, name).version() for name in TABLES}
    create_missing(tables)
    assert {name: open_table(tables, name).version() for name in TABLES} == versions


def constraints_of(tables: str) -> set[str]:
    configuration = open_table(tables, "producer_id_quotas").metadata().configuration
    return {name for name in configuration if name.startswith("delta.constraints.")}


@pytest.mark.parametrize("left", [0, 1])
def test_constraints_lost_to_a_crash_are_put_back(tmp_path: Path, left: int) -> None:
    spec = TABLES["producer_id_quotas"]
    table = DeltaTable.create(table_path(str(tmp_path), spec.name), spec.schema)
    for name in list(spec.constraints)[:left]:
        table.alter.add_constraint({name: spec.constraints[name]})
    create_missing(str(tmp_path))
    assert constraints_of(str(tmp_path)) == {f"delta.constraints.{name}" for name in spec.constraints}


def test_a_table_with_rows_gets_no_constraint_that_they_might_break(tmp_path: Path) -> None:
    spec = TABLES["producer_id_quotas"]
    DeltaTable.create(place := table_path(str(tmp_path), spec.name), spec.schema)
    write_deltalake(place, quota_row(-1.0), mode="append")
    create_missing(str(tmp_path))
    assert constraints_of(str(tmp_path)) == set()


@pytest.mark.parametrize("burst", [0.0, -1.0, float("nan"), float("inf"), MAX_PRODUCER_IDS_RATE])
def test_a_burst_out_of_range_is_refused_by_the_table_itself(tables: str, burst: float) -> None:
    write_deltalake(table_path(tables, "producer_id_quotas"), quota_row(producer_ids_burst=5.0), mode="append")
    with pytest.raises(DeltaError, match="validation check"):
        write_deltalake(table_path(tables, "producer_id_quotas"), quota_row(producer_ids_burst=burst), mode="append")


@pytest.mark.parametrize("version", [str(TABLES_VERSION + 1), "-1", "1.5", "", "new"])
def test_tables_of_a_version_that_we_do_not_know_are_refused(version: str) -> None:
    for known in range(TABLES_VERSION + 1):
        require_version(str(known), "here")
    with pytest.raises(TableVersionError, match=f"of version {version},"):
        require_version(version, "here")


def test_processes_that_make_the_tables_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(create_missing, [str(tmp_path)] * 4))
    assert all(open_table(str(tmp_path), name).version() >= 0 for name in TABLES)
    assert len(constraints_of(str(tmp_path))) == len(TABLES["producer_id_quotas"].constraints)


@pytest.mark.parametrize("place", ["file/tables", "file"])
def test_a_path_that_is_not_writable_is_one_clear_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TableError, match="not writable") as raised:
        create_missing(str(tmp_path / place))
    assert "--tables" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("tables", ["tables", ".", "..", "./a.b", "/a.b", "a.b.c", "s3://a.b", "a.b/", "dbfs:/a.b"])
def test_what_is_not_catalog_dot_schema_is_a_path(tables: str) -> None:
    assert not is_catalog(tables)

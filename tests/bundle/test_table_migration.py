"""Tables as an earlier version made them: opened, brought up to this one, and written by this version's stream."""

import tarfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from streaming.commit.deltalake_sink import DeltalakeSink
from streaming.commit.sinks import DeltaSink
from tables.errors import TableVersionError
from tables.schema.ddl import row_schema, spark_type
from tables.schema.specs import TABLES, VERSION_PROPERTY
from tables.store.path_tables import create_missing, open_table

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("golden-*.tar.gz"))
NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
ADDED_LATER = {
    "producer_id_metrics": ["saturated", "as_of"],
    "throttle_decisions": ["client_ids", "addresses", "quota_updated_at"],
}
"""Columns that a table of a version before them lacks: of each kind of type that a table has."""
GONE = {
    "tap_status": {"unplaced": pa.int64(), "unplaced_share": pa.float64()},
    "pid_blocks": {"error": pa.string(), "throttle_time_ms": pa.int32()},
}
"""Columns that an earlier version wrote."""


def rows(tables: str, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = open_table(tables, name).to_pyarrow_table().to_pylist()
    return found


def value(kind: str) -> object:
    if kind.startswith("MAP"):
        return {"rdkafka": 3}
    values = {"STRING": "a", "TIMESTAMP": NOON, "DOUBLE": 1.5, "BOOLEAN": True, "BINARY": b"b", "ARRAY<BIGINT>": [1, 2]}
    return values.get(kind, 7)


def one_row(name: str) -> dict[str, Any]:
    return {column.name: value(spark_type(column.type)) for column in TABLES[name].schema}


def without(name: str, columns: list[str], root: Path) -> str:
    """Make a table as a version before these columns did, with a row that lacks them; returns its folder."""
    schema = TABLES[name].schema
    older = pa.schema([column for column in schema if column.name not in columns])
    DeltaTable.create(str(root / name), older)
    row = {column: content for column, content in one_row(name).items() if column not in columns}
    row = {column: list(content.items()) if isinstance(content, dict) else content for column, content in row.items()}
    write_deltalake(str(root / name), pa.Table.from_pylist([row], schema=older), mode="append")
    return str(root)


def append_as_the_stream_does(
    spark: SparkSession, tables: str, name: str, sink: type[DeltaSink | DeltalakeSink] = DeltaSink
) -> None:
    row = {column: list(value.items()) if isinstance(value, dict) else value for column, value in one_row(name).items()}
    sink(tables, "test").append(spark, pa.Table.from_pylist([row], schema=row_schema(name)), name, 0)


@pytest.mark.parametrize("archive", GOLDEN, ids=lambda archive: archive.name)
def test_tables_that_an_earlier_version_wrote_open_and_take_what_this_one_writes(
    spark: SparkSession, tmp_path: Path, archive: Path
) -> None:
    with tarfile.open(archive) as content:
        content.extractall(tmp_path, filter="data")
    tables = str(tmp_path / "tables")
    before = {name: rows(tables, name) for name in TABLES if DeltaTable.is_deltatable(f"{tables}/{name}")}

    create_missing(tables)

    for name, earlier in before.items():
        now = rows(tables, name)
        later = {column for row in now for column in row} - {column for row in earlier for column in row}
        assert [{column: row[column] for column in row if column not in later} for row in now] == earlier
        assert {row[column] for row in now for column in later} <= {None}
    for name, spec in TABLES.items():
        table = open_table(tables, name)
        assert {column.name for column in table.schema().fields} >= set(spec.schema.names)
    for name in ("throttle_decisions", "producer_id_metrics"):
        append_as_the_stream_does(spark, tables, name)
        assert len(rows(tables, name)) == len(before.get(name, ())) + 1


@pytest.mark.parametrize("name", ADDED_LATER)
def test_columns_that_are_missing_are_added_and_written(spark: SparkSession, tmp_path: Path, name: str) -> None:
    tables = without(name, ADDED_LATER[name], tmp_path)
    earlier = rows(tables, name)

    create_missing(tables)
    append_as_the_stream_does(spark, tables, name)

    (was,) = earlier
    old, new = sorted(rows(tables, name), key=lambda row: row[ADDED_LATER[name][0]] is not None)
    assert old == was | dict.fromkeys(ADDED_LATER[name])
    assert None not in new.values()
    comments = {
        field.name: field.metadata["comment"]
        for field in open_table(tables, name).schema().fields
        if field.name in ADDED_LATER[name]
    }
    assert comments == {
        column: TABLES[name].schema.field(column).metadata[b"comment"].decode() for column in ADDED_LATER[name]
    }


@pytest.mark.parametrize("sink", [DeltaSink, DeltalakeSink])
@pytest.mark.parametrize(("name", "gone"), GONE.items())
def test_columns_that_are_no_longer_written_stay_and_are_null(
    spark: SparkSession, tmp_path: Path, name: str, gone: dict[str, pa.DataType], sink: type[DeltaSink | DeltalakeSink]
) -> None:
    earlier = TABLES[name].schema
    for column, kind in gone.items():
        earlier = earlier.insert(2, pa.field(column, kind))
    tables = str(tmp_path)
    DeltaTable.create(f"{tables}/{name}", earlier)

    create_missing(tables)
    append_as_the_stream_does(spark, tables, name, sink)

    (row,) = rows(tables, name)
    assert {column: row.pop(column) for column in gone} == dict.fromkeys(gone)
    assert None not in row.values()


def test_a_table_that_lacks_nothing_is_left_alone(tmp_path: Path) -> None:
    tables = without("throttle_decisions", ["client_ids"], tmp_path)
    create_missing(tables)
    version = open_table(tables, "throttle_decisions").version()
    create_missing(tables)
    assert open_table(tables, "throttle_decisions").version() == version


def test_tables_of_a_newer_version_are_refused_with_both_versions(tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    newer = {VERSION_PROPERTY: "99"}
    open_table(str(tmp_path), "tap_status").alter.set_table_properties(newer, raise_if_not_exists=False)
    with pytest.raises(TableVersionError, match="is of version 99, and this pid-quota knows versions up to 1"):
        create_missing(str(tmp_path))

"""Delta features that Spark gives a table in a folder: all readers refuse it, and the error's statements mend it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.web.pages import ConsoleData
from tables.errors import TableFeatureError
from tables.query.principal_facts import HOLD, read_fact
from tables.query.sql_query import query
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.path_tables import table_path
from tests.kits.upkeep_kit import DECISIONS, plan
from tests.unit.jobs.table_rows import NOON, append, decision

VECTORS = ("SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",)
MAPPING = ("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "RENAME COLUMN reason TO why")
DELETE = "DELETE FROM delta.`{}` WHERE principal = 'User:gone'"
BACK = "RENAME COLUMN why TO reason"
READERS: dict[str, Callable[[str], Any]] = {
    "query": lambda tables: query(tables, "SELECT principal FROM throttle_decisions", NOON),
    "view": lambda tables: query(tables, "TABLE current_throttles", NOON),
    "rows": lambda tables: open_store(tables).read(DECISIONS),
    "page": lambda tables: ConsoleData(tables).decisions(NOON, 24, ""),
    "hold": lambda tables: read_fact(tables, HOLD, "User:gone", NOON),
    "facts": lambda tables: open_store(tables).facts(TABLES[DECISIONS]),
    "doctor": lambda tables: open_store(tables).require_known_version(DECISIONS),
    "upkeep": lambda tables: open_store(tables).keep_up(TABLES[DECISIONS], plan(), NOON),
}


def alter(spark: SparkSession, tables: str, *changes: str) -> None:
    for change in changes:
        spark.sql(f"ALTER TABLE delta.`{table_path(tables, DECISIONS)}` {change}")


@pytest.fixture
def tables(tmp_path: Path) -> str:
    append(tmp_path, DECISIONS, decision("User:stays", NOON), decision("User:gone", NOON))
    return str(tmp_path)


def refused(tables: str) -> str:
    """Return the error with which all readers refuse the table."""
    errors = set()
    for read in READERS.values():
        with pytest.raises(TableFeatureError) as raised:
            read(tables)
        errors.add(str(raised.value))
    (error,) = errors
    return error


def mend(spark: SparkSession, error: str) -> None:
    found = re.search(r"run (.*;) Then try again", error)
    assert found is not None
    for statement in found[1].split(";")[:-1]:
        spark.sql(statement)


def principals(tables: str) -> list[list[str]]:
    for read in READERS.values():
        read(tables)
    rows = query(tables, "SELECT principal FROM throttle_decisions ORDER BY principal", NOON).rows
    return [[row[0] for row in rows], sorted(row["principal"] for row in open_store(tables).read(DECISIONS))]


def test_rows_that_a_deletion_vector_deletes_are_never_read(spark: SparkSession, tables: str) -> None:
    alter(spark, tables, *VECTORS)
    assert principals(tables) == [["User:gone", "User:stays"]] * 2
    spark.sql(DELETE.format(table_path(tables, DECISIONS)))

    error = refused(tables)

    assert "deletion vectors" in error
    # The stream appends on, and what it appends is there after the mend.
    append(tables, DECISIONS, decision("User:new", NOON))
    mend(spark, error)
    assert principals(tables) == [["User:new", "User:stays"]] * 2


def test_columns_that_are_not_called_so_in_the_files_are_never_read(spark: SparkSession, tables: str) -> None:
    alter(spark, tables, *MAPPING)
    error = refused(tables)
    assert "column mapping" in error
    alter(spark, tables, BACK)
    assert refused(tables) == error

    mend(spark, error)

    assert principals(tables) == [["User:gone", "User:stays"]] * 2
    assert [row["reason"] for row in open_store(tables).read(DECISIONS)] == ["over_quota"] * 2
    append(tables, DECISIONS, decision("User:new", NOON))
    assert principals(tables) == [["User:gone", "User:new", "User:stays"]] * 2


def test_a_feature_that_deltalake_lacks_is_named_with_its_mend(spark: SparkSession, tables: str) -> None:
    alter(spark, tables, "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    assert "DROP FEATURE typeWidening TRUNCATE HISTORY;" in refused(tables)


def test_features_that_change_no_row_are_read(spark: SparkSession, tables: str) -> None:
    alter(spark, tables, "SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')")
    assert principals(tables) == [["User:gone", "User:stays"]] * 2

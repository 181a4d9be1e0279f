"""Spark and `deltalake` on the same tables: Spark appends to tables made without a JVM, and runs the same views."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quota.config import QuotaConfig
from tables.query.sql_query import query
from tables.schema.ddl import spark_ddl
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS, view_statements, views
from tables.store.path_tables import create_missing, open_table, table_path
from tests.kits.spark_kit import own_views

NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    with own_views(spark) as session:
        yield session


@pytest.fixture
def tables(tmp_path: Path) -> str:
    create_missing(str(tmp_path))
    return str(tmp_path)


def append(spark: SparkSession, tables: str, name: str, *rows: tuple[object, ...]) -> None:
    frame = spark.createDataFrame(list(rows), spark_ddl(name))
    frame.coalesce(1).write.format("delta").mode("append").save(table_path(tables, name))


def quota(rate: float, kind: str = "user") -> tuple[object, ...]:
    return (kind, None, rate, None, NOON, "test")


@pytest.mark.parametrize("name", TABLES)
def test_spark_sees_the_columns_that_its_ddl_says(spark: SparkSession, tables: str, name: str) -> None:
    seen = spark.read.format("delta").load(table_path(tables, name)).schema
    said = spark.createDataFrame([], spark_ddl(name)).schema
    assert [(field.name, field.dataType) for field in seen] == [(field.name, field.dataType) for field in said]


def test_deltalake_reads_rows_that_spark_appends(spark: SparkSession, tables: str) -> None:
    decided = ("id", "User:m", None, "THROTTLE", NOON, 60_000, NOON, -1.0, 1.0, 20.0, None, "default", NOON, 3, [1, 2])
    append(spark, tables, "throttle_decisions", (*decided, {"rdkafka": 3}, {"10.0.0.7": 2}, "over_quota", 7))
    (row,) = open_table(tables, "throttle_decisions").to_pyarrow_table().to_pylist()
    assert (row["decided_at"], row["sample_pids"], row["client_ids"]) == (NOON, [1, 2], [("rdkafka", 3)])
    assert row["addresses"] == [("10.0.0.7", 2)]


@pytest.mark.parametrize("row", [quota(0.0), quota(float("nan")), quota(float("inf")), quota(5.0, "ip")])
def test_the_constraints_hold_for_spark_too(spark: SparkSession, tables: str, row: tuple[object, ...]) -> None:
    # pyspark hands on errors of classes that it does not know, such as Delta's, as py4j's.
    with pytest.raises((PySparkException, Py4JJavaError), match="DELTA_VIOLATE_CONSTRAINT"):
        append(spark, tables, "producer_id_quotas", row)


def test_spark_writes_a_quota_that_the_constraints_allow(spark: SparkSession, tables: str) -> None:
    append(spark, tables, "producer_id_quotas", quota(5.0))
    assert DeltaTable(table_path(tables, "producer_id_quotas")).to_pyarrow_table().num_rows == 1


@pytest.fixture
def filled(spark: SparkSession, tables: str) -> str:
    """Tables with some rows of everything that the views look at."""
    until = NOON.replace(minute=5)
    decided = ("id", "User:m", None, "THROTTLE", NOON, 60_000, until, -1.0, 1.0, 20.0, None, "default", NOON, 3, [1, 2])
    append(spark, tables, "throttle_decisions", (*decided, {"rdkafka": 3}, {"10.0.0.7": 2}, "over_quota", 7))
    counts = (21, 9, 2, 21, 1, 100, "enforcing", False)
    rows = [
        (principal, None, NOON, NOON, 1.5, tokens, 0, None, 30, 20.0, None, "default", *counts, batch)
        for principal, tokens, batch in (("User:m", -1.0, 7), ("User:m", -0.5, 6), ("User:a", 3.0, 7))
    ]
    append(spark, tables, "producer_id_metrics", *rows)
    report = (NOON, NOON, "host", "tap", "file", 9, 5, 0, NOON, None, False, 7)
    append(spark, tables, "tap_status", (1, *report), (2, NOON, *[None] * 10, 7))
    append(spark, tables, "quarantined_events", (b"x", "not_json", "produce-events", 0, 1, NOON, 7))
    lease = ("User:m", "lease", 1, "id", "m", None, None, "request_percentage", None, 0.01, until, "why", "host/1")
    append(spark, tables, "enforcement_actions", (NOON, 1, "applying", *lease), (NOON, 2, "in_force", *lease))
    for name in TABLES:
        spark.read.format("delta").load(table_path(tables, name)).createOrReplaceTempView(name)
    return tables


@pytest.mark.slow
def test_spark_runs_sql_views_sql_and_answers_as_duckdb_does(spark: SparkSession, filled: str) -> None:
    now = NOON.replace(minute=1)
    settings = f"SELECT timestamp'{now:%Y-%m-%d %H:%M:%S}' AS now, {QuotaConfig().window_ms} AS window_ms"
    for statement in view_statements(QuotaConfig().window_ms):
        name = statement.split()[4]
        if name == SETTINGS:
            # The only thing that is not as it is shipped: the time stands still.
            spark.sql(statement.replace("OR REPLACE VIEW", "OR REPLACE TEMPORARY VIEW"))
            spark.sql(settings).createOrReplaceTempView(SETTINGS)
        else:
            spark.sql(statement.replace("OR REPLACE VIEW", "OR REPLACE TEMPORARY VIEW"))

    for name in views():
        by_spark = spark.table(name).toArrow().to_pylist()
        by_duckdb = query(filled, f"TABLE {name}", now).records()
        assert comparable(by_spark) == comparable(by_duckdb), name


def comparable(records: list[dict[str, Any]]) -> list[dict[str, object]]:
    """Return records without the order of rows and the form of maps and decimals, which differ by engine."""
    plain = [{name: plain_value(value) for name, value in record.items()} for record in records]
    return sorted(plain, key=str)


def plain_value(value: Any) -> object:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bool | str | list | dict) or value is None:
        return value
    return round(float(value), 6)

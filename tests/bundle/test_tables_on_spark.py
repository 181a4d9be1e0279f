"""Spark and `deltalake` on the same tables: Spark appends to tables made without a JVM, and runs the same views."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tables.query.sql_query import query
from tables.schema.ddl import spark_ddl
from tables.schema.specs import TABLES
from tables.schema.views import views
from tables.store.path_tables import create_missing, open_table, table_path
from tests.kits.console_kit import demo_tables
from tests.kits.kip_kit import append_kip_tables, block_row, failed_init, init
from tests.kits.spark_kit import make_views, own_views, plain
from tests.unit.jobs.table_rows import (
    NOON,
    Row,
    append,
    broker_state,
    confirmed,
    decision,
    hold_fact,
    metrics,
    quarantined,
    seconds,
)

NOW = NOON + timedelta(hours=2)


def later(count: float) -> datetime:
    return NOON + seconds(count)


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    with own_views(spark) as session:
        yield session


@pytest.fixture
def tables(tmp_path: Path) -> str:
    create_missing(str(tmp_path))
    return str(tmp_path)


def append_by_spark(spark: SparkSession, tables: str, name: str, *rows: tuple[object, ...]) -> None:
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
    decided = ("id", "User:m", "THROTTLE", NOON, 60_000, NOON, -1.0, 1.0, 20.0, None, "default", NOON, 3, [1, 2])
    append_by_spark(spark, tables, "throttle_decisions", (*decided, {"rdkafka": 3}, {"10.0.0.7": 2}, "over_quota", 7))
    (row,) = open_table(tables, "throttle_decisions").to_pyarrow_table().to_pylist()
    assert (row["decided_at"], row["sample_pids"], row["client_ids"]) == (NOON, [1, 2], [("rdkafka", 3)])
    assert row["addresses"] == [("10.0.0.7", 2)]


@pytest.mark.parametrize("row", [quota(0.0), quota(float("nan")), quota(float("inf")), quota(5.0, "ip")])
def test_the_constraints_hold_for_spark_too(spark: SparkSession, tables: str, row: tuple[object, ...]) -> None:
    # pyspark hands on errors of classes that it does not know, such as Delta's, as py4j's.
    with pytest.raises((PySparkException, Py4JJavaError), match="DELTA_VIOLATE_CONSTRAINT"):
        append_by_spark(spark, tables, "producer_id_quotas", row)


def test_spark_writes_a_quota_that_the_constraints_allow(spark: SparkSession, tables: str) -> None:
    append_by_spark(spark, tables, "producer_id_quotas", quota(5.0))
    assert DeltaTable(table_path(tables, "producer_id_quotas")).to_pyarrow_table().num_rows == 1


def inits() -> list[Row]:
    name = "job-0b5a9dcb-8f9a-4a1c-9c55-1b9e5f7d2a01"
    plain_ones = [
        init(later(7 * n + n % 4), n, principal="User:m", client_id=f"producer-{n}", client_host=f"10.0.0.{n % 3}")
        for n in range(60)
    ]
    steady = [init(later(900 * n), 100 + n, client_id=name) for n in range(6)]
    pay = {"principal": "User:t", "client_id": "pay", "transactional_id": "pay"}
    bump = {**pay, "producer_id": 200, "producer_epoch": 0}
    bumps = [init(later(second), 200, **bump, result_producer_epoch=1) for second in (6, 7)]
    transactional = [init(later(5), 200, **pay), *bumps, init(later(8), 201, **pay)]
    fenced = failed_init(later(9), "PRODUCER_FENCED", **bump)
    return [*plain_ones, *steady, *transactional, fenced]


def blocks() -> list[Row]:
    """Some overlap, begin too low, or are of an epoch that was over."""
    given = [(0, 1, 5), (1000, 2, 6), (1500, 1, 5), (3000, 2, 4)]
    return [
        block_row(first, later(60 * minute), broker_id=broker_id, broker_epoch=epoch)
        for minute, (first, broker_id, epoch) in enumerate(given)
    ]


def intervals() -> list[Row]:
    refused = [{"refused_pids": 7, "owed_pids": 3} if n % 3 else {} for n in range(16)]
    counts = [each | {"new_pids_window": 40 + n, "active_pids": n} for n, each in enumerate(refused)]
    return [
        metrics(principal, later(450 * (n + 1)), admitted_pids=5, quota=60.0, tokens=-0.5, **each)
        for n, each in enumerate(counts)
        for principal in ("User:m", "User:b")
    ]


def uses() -> list[Row]:
    """Of two principals' newest samples, one has an id that EndTxn handed out."""
    first_ms = round(later(60).timestamp() * 1000)

    def use(pid: int, client_id: str, seconds_used: int) -> str:
        return f"{pid} {first_ms} {first_ms + 1000 * seconds_used} {client_id}"

    sampled = [use(pid, "producer-1", 60 * pid) for pid in range(4)]
    rotated = [use(201, "pay", 7), use(900, "pay", 70)]
    return [
        metrics("User:m", later(7300), pid_uses=sampled[0], pid_uses_one_in=1),
        metrics("User:m", later(7400), pid_uses=";".join(sampled), pid_uses_one_in=2),
        metrics("User:m", later(7450)),
        metrics("User:t", later(7400), pid_uses=";".join(rotated), pid_uses_one_in=1),
    ]


def hold_facts() -> list[Row]:
    """One principal for each answer to the question whether it is held."""
    at = NOW - seconds(9)
    held: dict[str, Any] = {"until": NOW + seconds(51), "since": at, "held_requests": 40, "let_in": 2}
    return [
        hold_fact("written", at, init_every_ms=3_000),
        *(confirmed(broker_id, at, **held) for broker_id in (1, 2)),
        hold_fact("written", at, "User:b"),
        hold_fact("removed", at + seconds(1), "User:b", until=None),
        hold_fact("would_hold", at, "User:c"),
        hold_fact("left_out", at, "User:d", reason="--never"),
        hold_fact("written", at, "User:e"),
        hold_fact("released", NOW, None),
        hold_fact("ended", at, "User:f", broker_id=1, reason="expired", until=at),
    ]


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo's tables, and some rows more of what each view tells apart."""
    tables = demo_tables(tmp_path_factory.mktemp("filled"))
    append_kip_tables(
        tables,
        inits=inits(),
        blocks=blocks(),
        decisions=[decision("User:m", later(7000), throttled_until=later(9000))],
    )
    append(tables, "producer_id_metrics", *intervals(), *uses())
    append(tables, "quarantined_events", quarantined(NOW))
    append(tables, "broker_status", broker_state(1, NOW), broker_state(9, None, seen_at=NOON))
    append(tables, "holds", *hold_facts())
    make_views(spark, tables, NOW)
    return tables


@pytest.mark.slow
@pytest.mark.parametrize("view", views())
def test_spark_answers_as_duckdb_does(spark: SparkSession, filled: str, view: str) -> None:
    by_spark = spark.table(view).toArrow().to_pylist()
    by_duckdb = query(filled, f"TABLE {view}", NOW).records()
    assert by_duckdb
    assert sorted(plain(by_spark), key=str) == sorted(plain(by_duckdb), key=str)

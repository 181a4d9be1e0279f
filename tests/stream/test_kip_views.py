"""The views of KIP-730 and KIP-360 on Spark: the same answers as DuckDB's, which the other tests look at."""

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from quota.config import QuotaConfig
from tables.query.sql_query import query
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS, needed_views, views
from tables.store.path_tables import create_missing, table_path
from tests.kits.spark_kit import own_views

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
NOW = NOON + timedelta(hours=2)
OURS = (
    "pid_block_burn",
    "pid_block_violations",
    "init_outcomes",
    "principal_churn",
    "new_pids_per_window",
    "new_pids_per_day",
    "pid_budget",
    "top_offenders",
    "current_throttles",
)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def init(number: int, seconds: float, **others: object) -> dict[str, object]:
    return {
        "answered_at": at(seconds),
        "broker_id": 1,
        "principal": "User:m",
        "client_id": f"producer-{number}",
        "client_host": f"10.0.0.{number % 3}",
        "transactional_id": None,
        "producer_id": -1,
        "producer_epoch": -1,
        "result_producer_id": number,
        "result_producer_epoch": 0,
        "error": "NONE",
        "repeated": False,
        "batch_id": 0,
        **others,
    }


def inits() -> list[dict[str, object]]:
    uuid = "0b5a9dcb-8f9a-4a1c-9c55-1b9e5f7d2a01"
    plain = [init(number, 7 * number + number % 4) for number in range(60)]
    steady = [init(100 + number, 900 * number, principal="User:a", client_id=f"job-{uuid}") for number in range(6)]
    pay = {"principal": "User:t", "client_id": "pay", "transactional_id": "pay"}
    bump = {**pay, "producer_id": 200, "producer_epoch": 0, "result_producer_epoch": 1}
    transactional = [init(200, 5, **pay), init(200, 6, **bump), init(200, 7, **bump), init(201, 8, **pay)]
    fenced = init(-1, 9, **{**bump, "error": "PRODUCER_FENCED", "result_producer_epoch": -1})
    return [*plain, *steady, *transactional, fenced, init(3, 7 * 3 + 3, repeated=True, batch_id=9)]


def blocks() -> list[dict[str, object]]:
    rows = []
    for first, broker_id, epoch, minutes in [(0, 1, 5, 0), (1000, 2, 6, 1), (1500, 1, 5, 2), (3000, 2, 4, 3)]:
        row = {"broker_id": broker_id, "broker_epoch": epoch, "first_producer_id": first, "length": 1000}
        rows.append({**row, "allocated_at": at(60 * minutes), "batch_id": 0})
    failed = {"first_producer_id": -1, "length": 0}
    return [*rows, {**rows[0], **failed}, {**rows[0], "batch_id": 1}]


def decisions() -> list[dict[str, object]]:
    row = dict.fromkeys(TABLES["throttle_decisions"].schema.names)
    times = {"decided_at": at(7000), "throttled_until": at(9000)}
    tokens = {"quota": 60.0, "tokens": -1.0, "refused_pids": 1}
    named = {"decision_id": "d", "principal": "User:m", "action": "THROTTLE", "batch_id": 0}
    return [row | named | times | tokens]


def metrics() -> list[dict[str, object]]:
    empty = dict.fromkeys(TABLES["producer_id_metrics"].schema.names)
    same = {"quota": 60.0, "quota_source": "user", "batch_id": 0, "late_pids": 0, "phase": "enforcing"}
    rows = []
    for number in range(16):
        end, refused = at(450 * (number + 1)), 7 if number % 3 else 0
        counts = {"admitted_pids": 5, "refused_pids": refused, "new_pids_window": 40 + number, "tokens": -0.5}
        for principal, broker_id in (("User:m", None), ("User:b", 1), ("User:b", 2)):
            own = {
                "principal": principal,
                "broker_id": broker_id,
                "window_end": end,
                "as_of": end,
                "active_pids": number,
            }
            rows.append(empty | same | counts | own)
    return rows


ROWS = {
    "producer_inits": inits(),
    "pid_blocks": blocks(),
    "throttle_decisions": decisions(),
    "producer_id_metrics": metrics(),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    root: Path = tmp_path_factory.mktemp("tables")
    create_missing(str(root))
    for name, rows in ROWS.items():
        table = pa.Table.from_pylist(rows, schema=TABLES[name].schema)
        write_deltalake(table_path(str(root), name), table, mode="append")
    return str(root)


@pytest.mark.slow
@pytest.mark.parametrize("view", OURS)
def test_spark_answers_as_duckdb_does(spark: SparkSession, tables: str, view: str) -> None:
    setting = f"SELECT timestamp'{NOW:%Y-%m-%d %H:%M:%S}' AS now, {QuotaConfig().window_ms} AS window_ms"
    with own_views(spark):
        for name in ROWS:
            spark.read.format("delta").load(table_path(tables, name)).createOrReplaceTempView(name)
        spark.sql(setting).createOrReplaceTempView(SETTINGS)
        for name in needed_views(view):
            spark.sql(views()[name]).createOrReplaceTempView(name)
        by_spark = spark.table(view).toArrow().to_pylist()
    by_duckdb = query(tables, f"TABLE {view}", NOW).records()

    assert by_duckdb
    assert comparable(by_spark) == comparable(by_duckdb)


def comparable(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    plain = [
        {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()} for row in rows
    ]
    return sorted(({**row, **utc(row)} for row in plain), key=str)


def utc(row: dict[str, object]) -> dict[str, object]:
    return {name: value.timestamp() for name, value in row.items() if isinstance(value, datetime)}

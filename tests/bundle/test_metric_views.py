"""The metric views, made by Spark 4.2 over the demo's tables: their measures equal those of the ordinary views.

Spark knows version 0.1 of Databricks' definition, which has no comments and synonyms: those are only looked at here.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from jobs.cli import run
from tables.query.sql_query import query
from tables.schema.catalog_views import CatalogView, catalog_metric_views
from tables.schema.metric_views import metric_view_definition, metric_views
from tables.schema.specs import TABLES
from tables.store.path_tables import table_path
from tests.kits import warehouse_kit
from tests.kits.console_kit import NOW, SCRIPT, demo_tables

SCHEMA = "metric_views"
FIELDS = {"name", "expr", "comment", "synonyms"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    return demo_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def spark(spark: SparkSession, tables: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    spark.sql(f"CREATE DATABASE {SCHEMA} LOCATION '{tmp_path_factory.mktemp('schema')}'")
    for name in TABLES:
        spark.sql(f"CREATE TABLE {SCHEMA}.{name} USING delta LOCATION '{table_path(tables, name)}'")
    for name in metric_views():
        body = version_01(metric_view_definition(name, f"spark_catalog.{SCHEMA}"))
        spark.sql(CatalogView(f"{SCHEMA}.{name}", body, "", is_metric=True).create_statement())
    yield spark
    spark.sql(f"DROP DATABASE {SCHEMA} CASCADE")


def version_01(definition: str) -> str:
    given = yaml.safe_load(definition.strip("$"))

    def columns(kind: str) -> list[dict[str, str]]:
        return [{"name": each["name"], "expr": each["expr"]} for each in given[kind]]

    older = {"version": "0.1", "source": given["source"]} | {kind: columns(kind) for kind in ("dimensions", "measures")}
    return f"$$\n{yaml.safe_dump(older, sort_keys=False, width=1000)}$$"


def rows(spark: SparkSession, select: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(select.replace("FROM ", f"FROM {SCHEMA}.")).collect()]


@pytest.mark.slow
def test_new_and_refused_pids_per_principal_are_those_of_the_views(spark: SparkSession, tables: str) -> None:
    found = rows(
        spark,
        "SELECT principal, MEASURE(new_pids), MEASURE(refused_pids) "
        "FROM new_pid_metrics GROUP BY principal ORDER BY ALL",
    )
    # By interval, as measures that add up over any time must be: `pid_budget` counts who comes back once (309, 229).
    by_interval = "SELECT principal, sum(admitted_pids + refused_pids), sum(refused_pids) FROM principal_metrics"
    wanted = query(tables, f"{by_interval} GROUP BY principal ORDER BY ALL", NOW)
    assert found == list(wanted.rows)
    assert ("User:mallory", 347, 234) in found


@pytest.mark.slow
def test_refused_pids_over_time_add_up(spark: SparkSession) -> None:
    by_hour = rows(spark, "SELECT hour, MEASURE(refused_pids), MEASURE(principals) FROM new_pid_metrics GROUP BY hour")
    assert sum(refused for _, refused, _ in by_hour) == 234
    assert max(principals for *_, principals in by_hour) == 7


@pytest.mark.slow
def test_a_throttle_that_is_renewed_is_one_throttle_and_counts_its_pids_once(spark: SparkSession) -> None:
    # Five decisions of mallory, each with all that was refused since the first.
    found = rows(
        spark,
        "SELECT client_id, MEASURE(throttles), MEASURE(refused_pids), MEASURE(throttled_principals) "
        "FROM throttle_metrics WHERE principal = 'User:mallory' GROUP BY client_id ORDER BY ALL",
    )
    assert found == [("rdkafka", 1, 215, 1), ("spark-7", 1, 20, 1)]


@pytest.mark.slow
def test_throttled_principals_are_counted_across_clients(spark: SparkSession) -> None:
    by_day = "SELECT day, MEASURE(throttled_principals), MEASURE(throttles) FROM throttle_metrics GROUP BY day"
    assert [counts for _, *counts in rows(spark, by_day)] == [[2, 2]]
    by_principal = "SELECT principal, MEASURE(throttles) FROM throttle_metrics GROUP BY principal ORDER BY ALL"
    assert rows(spark, by_principal) == [(SCRIPT, 1), ("User:mallory", 1)]


@pytest.mark.slow
def test_issued_pids_per_client_are_those_of_the_inits(spark: SparkSession) -> None:
    found = rows(
        spark,
        "SELECT client_id, client_host, MEASURE(issued_pids), MEASURE(failed_requests) "
        "FROM issued_pid_metrics GROUP BY client_id, client_host",
    )
    assert found == [("producer-1", "10.0.0.7", 240, 0)]


@pytest.mark.parametrize("name", metric_views())
def test_each_definition_has_only_what_databricks_knows_and_explains_itself(name: str) -> None:
    definition = metric_views()[name]
    assert set(definition) == {"version", "comment", "source", "dimensions", "measures"}
    assert definition["version"] == 1.1
    for column in [*definition["dimensions"], *definition["measures"]]:
        assert set(column) <= FIELDS
        assert column["comment"]


def test_a_command_makes_them_in_a_catalog_and_alters_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = warehouse_kit.use(monkeypatch)
    tables = f"{warehouse_kit.CATALOG}.{warehouse_kit.SCHEMA}"
    wanted = catalog_metric_views(tables)
    command = ["tables", "create", "--metric-views", "--tables", tables]

    def made() -> list[str]:
        return [each for each in warehouse.changes if "$$" in each]

    assert run(command) == 0
    assert made() == [view.create_statement() for view in wanted]
    assert "throttle_metrics" in capsys.readouterr().out
    assert run(command) == 0
    assert len(made()) == len(wanted)
    warehouse.properties[wanted[1].name] = {}
    assert run(command) == 0
    assert made()[len(wanted) :] == [each for each in wanted[1].alter_statements() if "$$" in each]

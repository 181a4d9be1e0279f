"""The dashboard and the alerts: their queries are taken from the files and answered over real tables."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from tables.query.sql_query import query
from tables.schema.specs import TABLES
from tables.store.path_tables import create_missing, table_path
from tests.kits.console_kit import NOW, demo_tables
from tests.kits.databricks_kit import ROOT, load_bundle
from tests.kits.spark_kit import make_views, own_views, plain

NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)

DASHBOARD = json.loads((ROOT / "resources" / "overview.lvdash.json").read_text(encoding="utf-8"))
DATASETS = {dataset["name"]: "".join(dataset["queryLines"]) for dataset in DASHBOARD["datasets"]}
WIDGETS = {item["widget"]["name"]: item["widget"] for page in DASHBOARD["pages"] for item in page["layout"]}
ALERTS = load_bundle("prod").resources("alerts")


def alert_query(alert: dict[str, Any]) -> str:
    """The query of an alert, over tables that are found without their catalog and schema."""
    return str(alert["query_text"]).replace("`main`.`pid_quota`.", "")


QUERIES = DATASETS | {f"alert {name}": alert_query(alert) for name, alert in ALERTS.items()}
SPACE = load_bundle("prod").resources("genie_spaces")["first_look"]["serialized_space"]
ANSWERS = {
    example["question"][0]: "".join(example["sql"]).replace("`main`.`pid_quota`.", "")
    for example in SPACE["instructions"]["example_question_sqls"]
}


def put(tables: str, name: str, *rows: dict[str, object]) -> None:
    """Append rows; columns that are not named are null."""
    write_deltalake(
        table_path(tables, name), pa.Table.from_pylist(list(rows), schema=TABLES[name].schema), mode="append"
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An hour of mallory, throttled and on hold, of alice, and of two brokers, one without the plugin."""
    root = str(tmp_path_factory.mktemp("tables"))
    create_missing(root)
    mallory, alice = {"principal": "User:mallory"}, {"principal": "User:alice"}
    limit = {"quota": 20.0, "quota_source": "default"}
    for minutes in (1, 2):
        at = NOON - minutes * MINUTE
        counts = {
            "window_end": at,
            "as_of": at,
            "rate": 21.0,
            "new_pids_window": 30,
            "phase": "enforcing",
            "batch_id": 7,
        }
        more = {"saturated": False, "active_pids": 21, "late_pids": 1, "throttle_time_ms": 0, "state_bytes": 512}
        put(
            root,
            "producer_id_metrics",
            mallory | limit | counts | more | {"tokens": -1.0, "admitted_pids": 21, "refused_pids": 9, "owed_pids": 9},
            alice | limit | counts | more | {"tokens": 15.0, "admitted_pids": 5, "refused_pids": 0, "owed_pids": 0},
        )
    until = NOON + 5 * MINUTE
    decided = {"decision_id": "d", "action": "THROTTLE", "decided_at": NOON - MINUTE, "throttled_until": until}
    put(root, "throttle_decisions", mallory | limit | decided | {"tokens": -1.0, "refused_pids": 9, "batch_id": 7})
    hold = {"recorded_at": NOON - MINUTE, "until": until, "writer": "s", "batch_id": 7}
    confirmed = {"broker_id": 1, "since": NOON - MINUTE, "held_requests": 40, "let_in": 2}
    put(root, "holds", *(mallory | hold | each for each in ({"state": "written"}, {"state": "in_force"} | confirmed)))
    seen = {"seen_at": NOON, "batch_id": 7}
    put(
        root,
        "broker_status",
        seen | {"broker_id": 1, "reported_at": NOON, "events": 5, "stopped": False},
        seen | {"broker_id": 2},
    )
    put(root, "quarantined_events", {"reason": "not_json", "record_timestamp": NOON - MINUTE, "batch_id": 7})
    return root


@pytest.fixture(scope="module")
def spark(spark: SparkSession, tables: str) -> Iterator[SparkSession]:
    """A session with the tables and views of the same moment under their names."""
    with own_views(spark) as session:
        make_views(session, tables, NOON)
        yield session


def fields_of(widget: dict[str, Any]) -> set[str]:
    return {field["name"] for query_ in widget["queries"] for field in query_["query"]["fields"]}


def named_in(node: object) -> set[str]:
    if isinstance(node, dict):
        own = {node["fieldName"]} if "fieldName" in node else set()
        return own.union(*(named_in(value) for value in node.values()))
    return set().union(*(named_in(value) for value in node)) if isinstance(node, list) else set()


@pytest.mark.parametrize("name", QUERIES)
def test_each_query_answers_with_rows(tables: str, name: str) -> None:
    assert query(tables, QUERIES[name], NOON).rows


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_spark_answers_each_query_as_duckdb_does(spark: SparkSession, tables: str, name: str) -> None:
    by_spark = spark.sql(QUERIES[name]).toArrow().to_pylist()
    assert plain(by_spark) == plain(query(tables, QUERIES[name], NOON).records())


@pytest.mark.parametrize("name", WIDGETS)
def test_a_widget_shows_columns_that_its_query_has(tables: str, name: str) -> None:
    widget = WIDGETS[name]
    (source,) = widget["queries"]
    columns = query(tables, DATASETS[source["query"]["datasetName"]], NOON).columns
    assert fields_of(widget) <= set(columns)
    assert named_in(widget["spec"]["encodings"]) == fields_of(widget)
    assert all(field["expression"] == f"`{field['name']}`" for field in source["query"]["fields"])


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_compares_the_number_that_its_query_gives(tables: str, name: str) -> None:
    alert = ALERTS[name]
    (record,) = query(tables, alert_query(alert), NOON).records()
    assert list(record) == [alert["evaluation"]["source"]["name"]]
    assert record[alert["evaluation"]["source"]["name"]] == 1
    assert alert["evaluation"]["comparison_operator"] == "GREATER_THAN"
    assert alert["evaluation"]["threshold"] == {"value": {"double_value": 0}}


def test_alerts_are_silent_over_empty_tables(tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    for alert in ALERTS.values():
        assert [tuple(row) for row in query(str(tmp_path), alert_query(alert), NOON).rows] == [(0,)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    return demo_tables(tmp_path_factory.mktemp("demo"))


@pytest.mark.parametrize("question", ANSWERS)
def test_each_question_of_the_space_is_answered_by_its_sql(demo: str, question: str) -> None:
    # The demo's tables are older than the 7 days that one of them asks for.
    sql = ANSWERS[question].replace("current_timestamp", f"TIMESTAMPTZ '{NOW.isoformat()}'")
    assert query(demo, sql, NOW).rows


def test_queries_name_no_catalog_or_schema() -> None:
    for sql in DATASETS.values():
        named = re.findall(r"(?:FROM|JOIN)\s+([\w.`]+)", sql)
        assert named
        assert not [name for name in named if "." in name]

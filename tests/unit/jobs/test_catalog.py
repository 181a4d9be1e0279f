"""Commands on the tables of a catalog, against a fake SQL warehouse (see `warehouse_kit`)."""

import inspect
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest
from databricks.sql.client import Connection, Cursor
from databricks.sql.exc import ServerOperationError

from jobs.cli import run
from tables.schema.views import views
from tables.store import engines
from tables.store.commits import retry_conflicts
from tables.store.engines import Engine
from tests.kits import warehouse_kit
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.warehouse_kit import FakeWarehouse, insert
from tests.unit.jobs.table_rows import NOON, broker_state, metrics

TABLES_OF = "prod.pid_quota"
TABLES_OPTION = ("--tables", TABLES_OF)


@pytest.fixture
def engine(warehouse: FakeWarehouse) -> Iterator[Engine]:
    with closing(engines.CatalogEngine("prod.pid_quota")) as engine:
        yield engine


def test_the_fake_takes_what_the_real_connector_takes() -> None:
    taken = set(inspect.signature(Connection.__init__).parameters)
    assert {"server_hostname", "http_path", "access_token", "catalog", "schema", "kwargs"} <= taken
    assert list(inspect.signature(Cursor.execute).parameters)[1:3] == ["operation", "parameters"]


class TestConnection:
    def test_is_made_on_first_use_to_the_host_with_catalog_and_schema_and_closed_again(
        self, warehouse: FakeWarehouse
    ) -> None:
        with closing(engines.CatalogEngine("prod.pid_quota")) as engine:
            assert warehouse.open_connections == 0
            engine.execute("SELECT 1")
            assert warehouse.open_connections == 1
        assert warehouse.open_connections == 0
        assert warehouse.connected_with == {
            "host": "warehouse.invalid",
            "path": warehouse_kit.HTTP_PATH,
            "token": warehouse_kit.TOKEN,
            "catalog": "prod",
            "schema": "pid_quota",
        }

    @pytest.mark.parametrize(
        ("missing", "given", "told"),
        [
            (
                "HTTP_PATH",
                {"WAREHOUSE_ID": "0123456789abcdef"},
                {"path": "/sql/1.0/warehouses/0123456789abcdef", "token": warehouse_kit.TOKEN},
            ),
            ("TOKEN", {"CLIENT_ID": "1" * 32, "CLIENT_SECRET": "not-real"}, {"auth_type": None}),
            ("TOKEN", {}, {"auth_type": "databricks-oauth", "credentials_provider": None}),
        ],
        ids=["a warehouse's id is enough", "a service principal signs in", "the browser asks"],
    )
    def test_is_made_with_what_is_set(
        self,
        warehouse: FakeWarehouse,
        engine: Engine,
        monkeypatch: pytest.MonkeyPatch,
        missing: str,
        given: dict[str, str],
        told: dict[str, str | None],
    ) -> None:
        monkeypatch.delenv(f"DATABRICKS_{missing}")
        for name, value in given.items():
            monkeypatch.setenv(f"DATABRICKS_{name}", value)
        engine.execute("SELECT 1")
        assert {name: warehouse.connected_with.get(name) for name in told} == told
        assert callable(warehouse.connected_with.get("credentials_provider")) == ("CLIENT_ID" in given)

    def test_a_service_principal_that_signs_in_for_many_requests_at_once_does_so_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[object] = []

        class SlowConfig:
            def __init__(self, **_: str) -> None:
                made.append(self)
                time.sleep(0.05)

        monkeypatch.setattr("databricks.sdk.core.Config", SlowConfig)
        monkeypatch.setattr("databricks.sdk.core.oauth_service_principal", lambda config: config)
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda _: engines.service_principal("https://one", "id", "no-secret"), range(8)))

        assert len(made) == 1
        assert all(each is made[0] for each in given)

    @pytest.mark.parametrize("missing", ["DATABRICKS_HOST", "DATABRICKS_HTTP_PATH"])
    def test_what_is_missing_is_named(
        self, pid_quota: PidQuota, warehouse: FakeWarehouse, monkeypatch: pytest.MonkeyPatch, missing: str
    ) -> None:
        monkeypatch.delenv(missing)
        err = one_error(pid_quota("sql", *TABLES_OPTION, "SELECT 1"))
        assert f"{missing} is not set" in err
        assert warehouse_kit.TOKEN not in err


class TestSql:
    @pytest.mark.parametrize("view", sorted(views()))
    def test_each_view_is_answered_without_being_there(
        self, pid_quota: PidQuota, warehouse: FakeWarehouse, view: str
    ) -> None:
        insert(warehouse, "broker_status", broker_state(1, datetime.now(timezone.utc)))
        assert isinstance(json.loads(printed(pid_quota("sql", *TABLES_OPTION, "--view", view, "--json"))), list)

    @pytest.mark.parametrize("before", ["", "\n", "\n-- WITH a comment\n", "/* of top_offenders */ "])
    def test_views_may_be_joined_below_a_with_of_the_user(
        self, pid_quota: PidQuota, warehouse: FakeWarehouse, before: str
    ) -> None:
        insert(warehouse, "producer_id_metrics", metrics("User:m", NOON, refused_pids=3))
        text = "WITH mine AS (SELECT principal, refused_pids FROM principal_metrics) SELECT * FROM mine;"
        code, out, _ = pid_quota("sql", *TABLES_OPTION, before + text, "--json")
        assert (code, json.loads(out)) == (0, [{"principal": "User:m", "refused_pids": 3}])

    def test_a_name_in_a_text_or_a_comment_is_no_view(self, pid_quota: PidQuota, warehouse: FakeWarehouse) -> None:
        text = "SELECT 'top_offenders' AS said /* quota_headroom */ -- stream_health"
        assert pid_quota("sql", *TABLES_OPTION, text)[0] == 0
        assert [statement for statement in warehouse.statements if "settings AS" in statement] == []

    @pytest.mark.parametrize("text", ["DELETE FROM throttle_decisions", "SELECT 1; SELECT 2", "USE prod", "SELECT ("])
    def test_only_one_reading_statement_gets_through(
        self, pid_quota: PidQuota, warehouse: FakeWarehouse, text: str
    ) -> None:
        assert "SELECT" in one_error(pid_quota("sql", *TABLES_OPTION, text))
        assert warehouse.statements == []

    def test_what_the_warehouse_refuses_is_one_line(self, pid_quota: PidQuota, warehouse: FakeWarehouse) -> None:
        err = one_error(pid_quota("sql", *TABLES_OPTION, "SELECT nothing FROM throttle_decisions"))
        assert err.startswith("error: the catalog refused: [PARSE_SYNTAX_ERROR]")


class TestQuotas:
    def rates(self, pid_quota: PidQuota) -> dict[str | None, float]:
        out = printed(pid_quota("quotas", *TABLES_OPTION, "--describe", "--json"))
        return {row["entity_name"]: row["producer_ids_rate"] for row in json.loads(out)}

    def alter(self, pid_quota: PidQuota, *arguments: object) -> None:
        code, _, err = pid_quota("quotas", *TABLES_OPTION, "--alter", "--entity-type", "users", *arguments)
        assert (code, err) == (0, "")

    def test_are_set_changed_and_deleted_the_default_too(self, pid_quota: PidQuota, warehouse: FakeWarehouse) -> None:
        self.alter(pid_quota, "--entity-default", "--add-config", "producer_ids_rate=100")
        self.alter(pid_quota, "--entity-name", "o'hara", "--add-config", "producer_ids_rate=5")
        self.alter(pid_quota, "--entity-name", "o'hara", "--add-config", "producer_ids_rate=7")
        assert self.rates(pid_quota) == {None: 100.0, "o'hara": 7.0}
        self.alter(pid_quota, "--entity-name", "o'hara", "--add-config", "producer_ids_burst=600")
        _, described, _ = pid_quota("quotas", *TABLES_OPTION, "--describe", "--entity-name", "o'hara", "--json")
        assert [(row["producer_ids_rate"], row["producer_ids_burst"]) for row in json.loads(described)] == [
            (7.0, 600.0)
        ]
        self.alter(pid_quota, "--entity-default", "--delete-config", "producer_ids_rate")
        assert self.rates(pid_quota) == {"o'hara": 7.0}


def test_in_a_databricks_runtime_its_spark_session_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    # FAKE session: the real one is in the runtime only.
    asked, local = [], NOON.astimezone().replace(tzinfo=None)

    class Session:
        def sql(self, statement: str) -> Any:
            asked.append(statement)
            return type("Frame", (), {"columns": ["x"], "collect": lambda _: [(local,)]})()

    builder = type("Builder", (), {"getOrCreate": staticmethod(Session)})
    monkeypatch.setenv(engines.RUNTIME, "17.3")
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", builder)
    answer = engines.CatalogEngine("my-catalog.q").execute("SELECT :a", {"a": 1})
    assert asked == ["USE `my-catalog`.`q`", "SELECT 1"]
    assert answer.rows == ((NOON,),)


def test_a_statement_that_conflicts_with_another_writer_s_is_run_again(
    warehouse: FakeWarehouse, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "retry_conflicts", partial(retry_conflicts, sleep=lambda _: None))
    answer, conflicts = warehouse.run, ["[DELTA_CONCURRENT_APPEND] Files were added by a concurrent update."]

    def conflict_once(*asked: Any) -> Any:
        if conflicts:
            raise ServerOperationError(conflicts.pop())
        return answer(*asked)

    monkeypatch.setattr(warehouse, "run", conflict_once)

    assert engine.execute("SELECT 7 AS n").records() == [{"n": 7}]
    assert not conflicts


def test_a_query_without_the_parser_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert run(["sql", "--tables", "prod.pid_quota", "SELECT 1"]) == 1
    assert ".whl[databricks]'" in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["[SCHEMA_NOT_FOUND] no `x`", "[NO_SUCH_CATALOG_EXCEPTION] no `x`"])
def test_a_schema_that_is_not_there_is_named_with_what_makes_it(
    warehouse: FakeWarehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    def refuse(*_: object) -> None:
        raise ServerOperationError(reason)

    monkeypatch.setattr(warehouse, "run", refuse)
    assert run(["tables", "create", "--tables", "prod.nowhere"]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "no such schema" in line
    assert "`databricks bundle deploy`" in line

"""Creation, description and maintenance of catalog tables by SQL, on a fake warehouse (`warehouse_kit`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from databricks.sql.exc import ServerOperationError

from tables.schema.ddl import catalog_table
from tables.schema.specs import TABLES
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.upkeep_kit import METRICS, QUOTAS, days_ago, tables_in
from tests.kits.warehouse_kit import FakeWarehouse, insert
from tests.unit.jobs.table_rows import metrics

TABLES_OF = "prod.pid_quota"


def asked(pid_quota: PidQuota, *arguments: object) -> dict[str, Any]:
    return tables_in(printed(pid_quota(*arguments, "--tables", TABLES_OF)))


def changes_of(warehouse: FakeWarehouse, name: str) -> list[str]:
    table = catalog_table(TABLES_OF, name)
    return [statement for statement in warehouse.changes if table in statement]


def test_each_table_is_deleted_from_merged_vacuumed_and_analysed(pid_quota: PidQuota, warehouse: FakeWarehouse) -> None:
    insert(warehouse, METRICS, metrics("User:old", days_ago(40)), metrics("User:young", days_ago(1)))

    done = asked(pid_quota, "tables", "maintain")

    table = catalog_table(TABLES_OF, METRICS)
    words = [statement.split(f" {table}") for statement in changes_of(warehouse, METRICS)]
    assert [word[0] for word in words] == ["DELETE FROM", "OPTIMIZE", "VACUUM", "ANALYZE TABLE"]
    assert words[2][1] == " RETAIN 168 HOURS"
    assert words[3][1] == " COMPUTE STATISTICS"
    assert (done[METRICS]["rows_before"], done[METRICS]["rows"], done[METRICS]["deleted_rows"]) == (2, 1, 1)
    assert set(done) == set(TABLES)
    # Nothing there grows old.
    assert not any(statement.startswith("DELETE") for statement in changes_of(warehouse, QUOTAS))


def test_a_dry_run_reports_and_changes_nothing(pid_quota: PidQuota, warehouse: FakeWarehouse) -> None:
    insert(warehouse, METRICS, metrics("User:old", days_ago(40)))

    done = asked(pid_quota, "tables", "maintain", "--dry-run")

    assert all(statement.startswith("VACUUM") and statement.endswith("DRY RUN") for statement in warehouse.changes)
    assert (done[METRICS]["deleted_rows"], done[METRICS]["vacuumed_files"], done[METRICS]["rows"]) == (1, 1, 1)


def test_tables_of_a_newer_version_are_refused(pid_quota: PidQuota, warehouse: FakeWarehouse) -> None:
    warehouse.properties[catalog_table(TABLES_OF, QUOTAS)] = {"pidQuota.tablesVersion": "99"}
    assert "version 99" in one_error(pid_quota("tables", "create", "--tables", TABLES_OF), 2)
    assert warehouse.changes == []


def test_each_right_is_tried_and_a_missing_one_named_with_what_grants_it(
    pid_quota: PidQuota, warehouse: FakeWarehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    asked_for = ("doctor", "--tables", TABLES_OF, "--json", "--checkpoint", str(checkpoint))

    found = [json.loads(line) for line in printed(pid_quota(*asked_for)).splitlines()]
    assert [row["verdict"] for row in found] == ["ok"] * 5
    assert list(checkpoint.iterdir()) == []

    run = warehouse.run

    def refusing(statement: str, parameters: object) -> object:
        if statement.startswith("CREATE VIEW"):
            msg = "[INSUFFICIENT_PERMISSIONS] User does not have CREATE TABLE on Schema"
            raise ServerOperationError(msg)
        return run(statement, parameters)

    monkeypatch.setattr(warehouse, "run", refusing)
    # Not a secret that can be read here: outside of a runtime.
    code, out, err = pid_quota(*asked_for, "--command-config", "secret:pid-quota-prod/kafka-client")

    assert (code, err) == (1, "")
    missing = [row for row in map(json.loads, out.splitlines()) if row["verdict"] == "wrong"]
    last = "read the secret pid-quota-prod/kafka-client"
    assert [row["subject"] for row in missing] == ["create and drop a view", last]
    assert "INSUFFICIENT_PERMISSIONS" in missing[0]["found"]
    assert missing[0]["remedy"].startswith("GRANT CREATE TABLE ON SCHEMA `prod`.`pid_quota` TO WHO (WHO is")
    assert missing[1]["remedy"].startswith("databricks secrets put-acl pid-quota-prod WHO READ")


def test_rights_on_a_folder_are_no_matter_of_grants(pid_quota: PidQuota, tmp_path: Path) -> None:
    assert "Give --tables CATALOG.SCHEMA" in one_error(
        pid_quota("doctor", "--tables", str(tmp_path), "--checkpoint", str(tmp_path / "checkpoint"))
    )

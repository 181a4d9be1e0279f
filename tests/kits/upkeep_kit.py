"""Tables to be kept up, and a FAKE catalog that answers what DuckDB can't: see `warehouse_kit` for what that shows."""

import os
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from databricks import sql
from deltalake import CommitProperties, Transaction, write_deltalake

from tables.schema.specs import TABLES
from tables.store.path_tables import create_missing, open_table, table_path
from tables.store.upkeep import UpkeepPlan
from tests.kits import warehouse_kit
from tests.unit.jobs.table_rows import Row, metrics

METRICS = "producer_id_metrics"
DECISIONS = "throttle_decisions"
ACTIONS = "enforcement_actions"
QUARANTINE = "quarantined_events"
QUOTAS = "producer_id_quotas"

LONG_AGO_S = 10 * 86_400


def now() -> datetime:
    return datetime.now(timezone.utc)


def days_ago(count: float) -> datetime:
    return now() - timedelta(days=count)


def plan(**values: Any) -> UpkeepPlan:
    days = {name: spec.keep_days for name, spec in TABLES.items()}
    return replace(UpkeepPlan(days, vacuum_hours=168), **values)


def write_batches(
    tables: str | Path, count: int, first: int = 0, name: str = METRICS, row: Row | None = None, mark: bool = True
) -> None:
    """Append batches as the stream does, each with its number and its mark."""
    create_missing(str(tables))
    for batch_id in range(first, first + count):
        one = row or metrics(f"User:{batch_id}", now(), batch_id=batch_id)
        properties = CommitProperties(
            custom_metadata={"userMetadata": f'{{"stream_id":"s","batch_id":{batch_id}}}'} if mark else None,
            app_transactions=[Transaction("pid-quota/s", batch_id)],
        )
        rows = pa.Table.from_pylist([one], schema=TABLES[name].schema)
        write_deltalake(table_path(str(tables), name), rows, mode="append", commit_properties=properties)


def rows_of(tables: str | Path, name: str) -> list[Row]:
    rows: list[Row] = open_table(str(tables), name).to_pyarrow_table().to_pylist()
    return rows


def versions(tables: str | Path) -> dict[str, int]:
    return {name: open_table(str(tables), name).version() for name in TABLES}


def lease(lease_id: str | None, state: str, recorded_at: datetime, until: datetime | None = None) -> Row:
    row = dict.fromkeys(TABLES[ACTIONS].schema.names)
    return row | {"lease_id": lease_id, "state": state, "recorded_at": recorded_at, "until": until or recorded_at}


def files_on_disk(tables: str | Path, name: str) -> list[str]:
    return sorted(path.name for path in Path(tables, name).glob("*.parquet"))


def log_names(tables: str | Path, name: str) -> set[str]:
    return {path.name for path in Path(tables, name, "_delta_log").iterdir()}


def make_old(folder: str | Path) -> None:
    """Let all files below a folder look as if they were written long ago."""
    past = time.time() - LONG_AGO_S
    for path in Path(folder).rglob("*"):
        os.utime(path, (past, past))


class FakeCatalog(warehouse_kit.FakeWarehouse):
    """A fake warehouse with the statements of upkeep; the tables in `hidden` are not there."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: set[str] = set()
        self.properties: dict[str, list[tuple[str, str]]] = {}
        self.changes: list[str] = []

    def run(self, statement: str, parameters: object) -> warehouse_kit.Said:
        words = statement.split()
        if words[0] in ("OPTIMIZE", "VACUUM", "ANALYZE", "ALTER", "CREATE"):
            # What it can't parse is refused, as by a warehouse; OPTIMIZE and VACUUM it takes for plain commands.
            sqlglot.parse_one(statement, read="databricks", error_level=sqlglot.ErrorLevel.RAISE)
            self.changes.append(statement)
            self.hidden -= {name for name in self.hidden if statement.startswith("CREATE") and f"`{name}`" in statement}
            return (["path"], [("a file",)]) if "DRY" in words else ([], [])
        if statement.startswith("DELETE"):
            self.changes.append(statement)
        if statement.startswith("SHOW TABLES"):
            return ["database", "tableName"], [("pid_quota", name) for name in TABLES if name not in self.hidden]
        if statement.startswith("SHOW TBLPROPERTIES"):
            return ["key", "value"], self.properties.get(words[2], [])
        if statement.startswith("DESCRIBE DETAIL"):
            return ["numFiles", "sizeInBytes"], [(7, 700)]
        if statement.startswith("DESCRIBE TABLE"):
            _, rows = super().run(statement.replace(" TABLE", ""), parameters)
            names = [row[0] for row in rows]
            about = [(name, "string", "a comment") for name in names]
            return ["col_name", "data_type", "comment"], [*about, ("", "", ""), ("# Clustering", "", "")]
        return super().run(statement, parameters)


def use_catalog(monkeypatch: pytest.MonkeyPatch) -> FakeCatalog:
    """Let commands reach a fake catalog."""
    warehouse_kit.use(monkeypatch)
    fake = FakeCatalog()
    monkeypatch.setattr(sql, "connect", fake.connect)
    return fake

"""Tables with small and unused files, for maintenance."""

import os
import re
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from tables.schema.specs import TABLES
from tables.store.path_tables import create_missing, open_table, table_path
from tables.store.values import UpkeepPlan
from tests.unit.jobs.table_rows import Row, metrics

METRICS = "producer_id_metrics"
DECISIONS = "throttle_decisions"
HOLDS = "holds"
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


def write_batches(tables: str | Path, count: int, first: int = 0, mark: bool = True) -> None:
    """Append batches as the stream does, each with its number and its mark."""
    create_missing(str(tables))
    for batch_id in range(first, first + count):
        properties = CommitProperties(
            custom_metadata={"userMetadata": f'{{"stream_id":"s","batch_id":{batch_id}}}'} if mark else None,
            app_transactions=[Transaction("pid-quota/s", batch_id)],
        )
        rows = pa.Table.from_pylist([metrics(f"User:{batch_id}", now(), batch_id=batch_id)], TABLES[METRICS].schema)
        write_deltalake(table_path(str(tables), METRICS), rows, mode="append", commit_properties=properties)


def rows_of(tables: str | Path, name: str) -> list[Row]:
    rows: list[Row] = open_table(str(tables), name).to_pyarrow_table().to_pylist()
    return rows


def versions(tables: str | Path) -> dict[str, int]:
    return {name: open_table(str(tables), name).version() for name in TABLES}


def files_on_disk(tables: str | Path, name: str) -> list[str]:
    return sorted(path.name for path in Path(tables, name).glob("*.parquet"))


def log_names(tables: str | Path, name: str) -> set[str]:
    return {path.name for path in Path(tables, name, "_delta_log").iterdir()}


def make_old(folder: str | Path) -> None:
    """Let all files below a folder look as if they were written long ago."""
    past = time.time() - LONG_AGO_S
    for path in Path(folder).rglob("*"):
        os.utime(path, (past, past))


def tables_in(printed: str) -> dict[str, dict[str, Any]]:
    """Return the rows that `tables maintain` has printed, by table."""
    names, *rows = (re.split(r" {2,}", line.strip()) for line in printed.splitlines())
    values = [[int(each) if each.isdecimal() else each for each in row] for row in rows]
    return {str(row[0]): dict(zip(names, row, strict=True)) for row in values}

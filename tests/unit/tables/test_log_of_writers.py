"""Writers of path tables leave the log's expired files to `maintain`, which may delete them at the same moment."""

import os
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from streaming.commit.deltalake_sink import DeltalakeSink
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import delete_quota, set_quota
from tables.schema.ddl import row_schema
from tables.store.log_upkeep import tidy_log
from tables.store.open import open_store
from tables.store.path_tables import create_missing

NOW = datetime.now(timezone.utc)
STATES, QUOTAS = "broker_status", "producer_id_quotas"


ROW = {"broker_id": 1}


def write_a_batch(tables: str) -> None:
    DeltalakeSink(tables, "s").append(
        Mock(spec=SparkSession), pa.Table.from_pylist([ROW], row_schema(STATES)), STATES, 1
    )


def append(tables: str) -> None:
    open_store(tables).append(STATES, [ROW])


def change_a_quota(tables: str) -> None:
    set_quota(tables, QuotaEntry("alice", 5.0, NOW, "test"))


def remove_a_quota(tables: str) -> None:
    delete_quota(tables, "alice")


@pytest.mark.parametrize(
    ("table", "write"),
    [(STATES, write_a_batch), (STATES, append), (QUOTAS, change_a_quota), (QUOTAS, remove_a_quota)],
)
def test_a_commit_deletes_no_expired_file_of_the_log(tmp_path: Path, table: str, write: Callable[[str], None]) -> None:
    tables = str(tmp_path)
    create_missing(tables)
    change_a_quota(tables)
    folder = tmp_path / table
    # Given files of the log that are due to be deleted at the next checkpoint, which comes with the next commit.
    DeltaTable(folder).alter.set_table_properties({"delta.checkpointInterval": "1"})
    past = time.time() - 10 * 86_400
    for file in (folder / "_delta_log").iterdir():
        os.utime(file, (past, past))
    before = {file.name for file in (folder / "_delta_log").glob("*.json")}

    write(tables)

    left = {file.name for file in (folder / "_delta_log").glob("*.json")}
    assert before < left
    # Upkeep does delete them.
    assert tidy_log(DeltaTable(folder), folder, datetime.now(timezone.utc)) >= len(before)

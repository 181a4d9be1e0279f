"""Reads the quotas in force from the quota table, once per batch.

The driver hands them to the tasks in the batch's file. A join with the quota table would cost half a second per batch.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from quota.limits import UNLIMITED, Limit, Quotas
from streaming.checkpoint.table_ids import other_table
from streaming.databricks import is_local
from tables.quotas.quota_entry import COLUMNS, entries_in_force
from tables.store.engines import SparkEngine
from tables.store.open import open_store
from tables.store.values import RowFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tables.quotas.quota_entry import QuotaEntry

TABLE = "producer_id_quotas"

_log = logging.getLogger(__name__)


def quotas_in_force(entries: Iterable[QuotaEntry]) -> Quotas:
    """Return entries of the quota table in the form that tasks read."""
    users: dict[str, Limit] = {}
    default = UNLIMITED
    for entry in entries:
        updated_at_ms = int(entry.updated_at.timestamp() * 1000)
        if entry.entity_name is None:
            default = Limit(entry.producer_ids_rate, "default", updated_at_ms, entry.producer_ids_burst)
        else:
            users[entry.entity_name] = Limit(entry.producer_ids_rate, "user", updated_at_ms, entry.producer_ids_burst)
    return Quotas(users, default)


def read_quotas(spark: SparkSession, tables: str, table_id: str | None = None) -> Quotas:
    """Read the quotas in force. `table_id` is the table's expected id.

    Raises:
        TableError: If the table can't be read.
        CheckpointError: If the table has another id. A recreated table has no quotas.
    """
    store = open_store(tables, SparkEngine(spark))
    if table_id is not None and (found_id := store.table_id(TABLE)) != table_id:
        raise other_table(tables, TABLE, found_id, table_id)
    if is_local(tables):
        rows = store.read(TABLE, RowFilter(columns=COLUMNS))
    else:
        rows = spark.read.table(store.spark_name(TABLE)).select(*COLUMNS).toArrow().to_pylist()
    entries, faults = entries_in_force(rows)
    for fault in faults:
        _log_once(fault)
    return quotas_in_force(entries)


@lru_cache(maxsize=1024)
def _log_once(fault: str) -> None:
    _log.warning("%s", fault)

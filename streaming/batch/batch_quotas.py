"""What the tasks of a batch need to know: the quotas in force, and the next producer id of the cluster.

When the batch begins, the driver writes both to the checkpoint. A join with the quota table would cost half a second
per batch.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from quota.limits import UNLIMITED, Limit, Quotas
from streaming.batch.batch_files import BatchFiles, SharedFiles
from streaming.checkpoint.next_producer_id import load_next_producer_id
from streaming.checkpoint.table_ids import load_table_ids, other_table
from streaming.databricks import is_local
from tables.quotas.quota_rows import COLUMNS, entries_in_force
from tables.store.open import open_store
from tables.store.values import RowFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tables.quotas.quota_entry import QuotaEntry

FOLDER, BATCH_FOLDER = "pid-quota-quotas", "pid-quota-batch-inputs"
TABLE = "producer_id_quotas"

_REMEDY = "restart the stream, which writes it again; workers and driver must see the same checkpoint folder"

_log = logging.getLogger(__name__)


class BatchInput(msgspec.Struct, frozen=True, array_like=True):
    """What the driver writes for a batch.

    Attributes:
        quotas_id: Id of the quotas in force.
        next_producer_id: The lowest PID that is not handed out yet, as far as the plugins have reported; None if
            unknown. A ledger that is lost in this batch learns below it.
    """

    quotas_id: str
    next_producer_id: int | None = None


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
    """Read the quotas in force. For a table in a local folder, `table_id` is the expected id.

    Raises:
        TableError: If the table can't be read.
        CheckpointError: If the table has another id. A recreated table has no quotas.
    """
    store = open_store(tables)
    if is_local(tables):
        found_id = store.table_id(TABLE)
        if table_id not in (None, found_id):
            raise other_table(tables, TABLE, found_id, str(table_id))
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


@dataclass(frozen=True)
class BatchQuotas:
    """Writes each batch's `BatchInput` and quotas to the checkpoint, for `TaskBatch`."""

    checkpoint: str
    tables: str

    def publish(self, spark: SparkSession, batch_id: int) -> Quotas:
        """Read the quotas, write them to the checkpoint, and return them. Raises the same errors as `read_quotas`."""
        quotas = read_quotas(spark, self.tables, load_table_ids(self.checkpoint).get(TABLE))
        write_input(self.checkpoint, batch_id, quotas)
        return quotas


def write_input(checkpoint: str, batch_id: int, quotas: Quotas) -> None:
    """Write a batch's input, and the quotas unless an earlier batch has stored them.

    A repeated batch keeps the next producer id of its first attempt.
    """
    inputs = _inputs(checkpoint)
    before, again = inputs.glance(batch_id - 1), inputs.glance(batch_id)
    quotas_id = _quotas(checkpoint).write(quotas, before.quotas_id if before else "")
    bound = again.next_producer_id if again else load_next_producer_id(checkpoint)
    inputs.write(batch_id, BatchInput(quotas_id, bound))


def quotas_of_id(checkpoint: str, quotas_id: str) -> Quotas:
    """Return the quotas with an id.

    Raises:
        CheckpointError: If the file with the quotas does not appear, or can't be read.
    """
    return _quotas(checkpoint).read(quotas_id)


def input_of(checkpoint: str, batch_id: int) -> BatchInput:
    """Return a batch's input.

    Raises:
        CheckpointError: If its file does not appear, or can't be read.
    """
    return _inputs(checkpoint).read(batch_id)


def _quotas(checkpoint: str) -> SharedFiles[Quotas]:
    return SharedFiles(checkpoint, FOLDER, Quotas, _REMEDY)


def _inputs(checkpoint: str) -> BatchFiles[BatchInput]:
    return BatchFiles(checkpoint, BATCH_FOLDER, BatchInput, _REMEDY)

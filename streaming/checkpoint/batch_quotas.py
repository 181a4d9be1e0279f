"""The quotas in force for a batch: the driver reads them when the batch begins, tasks read them from the checkpoint.

A join with the quota table would cost each batch half a second of planning and small jobs, and each principal three
more columns through pandas.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from quota.allowance import Allowance
from quota.limits import Limit, QuotaSource, resolve, shared_limit
from streaming.checkpoint.batch_files import BatchFiles
from streaming.checkpoint.table_ids import load_table_ids, other_table
from streaming.databricks import is_local
from streaming.errors import CheckpointError
from tables.quotas.quota_rows import COLUMNS, judge
from tables.store.open import open_store
from tables.store.values import RowFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

FOLDER = "pid-quota-quotas"
TABLE = "producer_id_quotas"

_log = logging.getLogger(__name__)


class Quota(msgspec.Struct, frozen=True, array_like=True):
    """One quota.

    Attributes:
        producer_ids_rate: New PIDs per window.
        updated_at_ms: When it was set, in milliseconds since the epoch.
        producer_ids_burst: New PIDs at once; None for the stream's `burst_windows` of the rate.
    """

    producer_ids_rate: float
    updated_at_ms: int
    producer_ids_burst: float | None = None

    def limit(self, source: QuotaSource) -> Limit:
        """Return it as the limit of a principal."""
        return shared_limit(self.producer_ids_rate, source, self.updated_at_ms, self.producer_ids_burst)


class Quotas(msgspec.Struct, frozen=True, array_like=True):
    """All quotas in force.

    Attributes:
        users: By name.
        default: Of users without one; None if they have none.
    """

    users: dict[str, Quota] = msgspec.field(default_factory=dict)
    default: Quota | None = None

    def has_own(self, principal: str) -> bool:
        """Return whether a principal has a quota of its own."""
        return _name(principal) in self.users

    def limit(self, principal: str) -> Limit:
        """Return the quota in force for a principal: its own, else the default, else none.

        Examples:
            >>> Quotas({"alice": Quota(5.0, 0)}, Quota(20.0, 0)).limit("User:alice").producer_ids_rate
            5.0
        """
        user, default = self.users.get(_name(principal)), self.default
        return resolve(
            user.limit("user") if user else None,
            default.limit("default") if default else None,
        )


def _name(principal: str) -> str:
    """Return a principal's name without its type, which quotas do not name either."""
    return principal.partition(":")[2] if ":" in principal else principal


def newest(rows: Iterable[Mapping[str, Any]]) -> Quotas:
    """Return the newest valid row of each entity as quotas; log each invalid row once."""
    judged = judge(rows)
    for fault in judged.said():
        _say_once(fault)
    found = {
        name: Quota(allowed.producer_ids_rate, int(row["updated_at"].timestamp() * 1000), allowed.producer_ids_burst)
        for name, row in judged.holding.items()
        for allowed in (Allowance.of(row),)
    }
    default = found.pop(None, None)
    return Quotas({name: quota for name, quota in sorted(found.items()) if name is not None}, default)


def read_quotas(spark: SparkSession, tables: str, table_id: str | None = None) -> Quotas:
    """Read the quotas in force.

    Args:
        spark: For tables that are not in a local folder.
        tables: Folder of path tables, or `catalog.schema`.
        table_id: Id of the table that the stream started with, if known.

    Raises:
        TableError: If the table can't be read.
        CheckpointError: If it is another table: quotas would silently be gone.
    """
    store = open_store(tables)
    if is_local(tables):
        found_id = store.table_id(TABLE)
        if table_id not in (None, found_id):
            raise other_table(tables, TABLE, found_id, str(table_id))
        return newest(store.read(TABLE, RowFilter(columns=COLUMNS)))
    return newest(spark.read.table(store.spark_name(TABLE)).select(*COLUMNS).toArrow().to_pylist())


@lru_cache(maxsize=1024)
def _say_once(fault: str) -> None:
    _log.warning("%s", fault)


@dataclass(frozen=True)
class BatchQuotas:
    """Writes the quotas of each batch to the checkpoint, on the driver; tasks read them by `TaskBatch.quotas`.

    Attributes:
        checkpoint: Its folder.
        tables: Folder of path tables, or `catalog.schema`.
    """

    checkpoint: str
    tables: str

    def publish(self, spark: SparkSession, batch_id: int) -> None:
        """Read the quotas for a batch, and write them to the checkpoint if they have changed.

        Raises:
            TableError: If they can't be read.
        """
        quotas = read_quotas(spark, self.tables, load_table_ids(self.checkpoint).get(TABLE))
        files = BatchFiles(self.checkpoint, FOLDER)
        number = files.newest(batch_id)
        if number is None or files.read(number, Quotas) != quotas:
            files.write(batch_id, quotas)


def quotas_at(checkpoint: str, batch_id: int) -> Quotas:
    """Return the quotas that hold for a batch.

    Raises:
        CheckpointError: If they are not there, or can't be read.
    """
    files = BatchFiles(checkpoint, FOLDER)
    number = files.newest(batch_id)
    if number is None:
        msg = f"no quotas of a batch in {files.folder}: the workers must see the checkpoint's folder as the driver does"
        raise CheckpointError(msg)
    return files.read(number, Quotas)

"""Stores the Delta ids of a stream's tables in the checkpoint. This module needs no Spark.

A recreated table has another id and no quotas. Throttling would silently stop, so a stream does not start if a
table was recreated.
"""

from collections.abc import Mapping
from pathlib import Path

from streaming.checkpoint.own_files import read_json, write_json
from streaming.checkpoint.spark_files import newest_batch
from streaming.errors import CheckpointError
from tables.store.base import TableStore

NEEDED = ("producer_id_quotas", "throttle_decisions", "producer_id_metrics", "quarantined_events")
"""The tables that the stream reads or writes."""
IDS_FILE = "pid-quota-tables.json"

_WITHOUT_OLD_ROWS = "--new-tables to start without its quotas and rows"


def require_same(store: TableStore, checkpoint: str, *, new_tables: bool) -> None:
    """Check that a stream's tables exist with the same ids, except at the first start or if `new_tables` is true.

    Raises:
        CheckpointError: If a table is missing or has another id.
    """
    if new_tables or newest_batch(checkpoint) is None:
        return
    there, kept = table_ids(store), load_table_ids(checkpoint)
    for name in NEEDED:
        if name not in there:
            msg = (
                f"checkpoint {checkpoint} has batches, but there is no table {name} in {store.tables}: give that "
                f"stream's --tables, or restore the table, or give {_WITHOUT_OLD_ROWS}"
            )
            raise CheckpointError(msg)
        if kept.get(name, there[name]) != there[name]:
            raise other_table(store.tables, name, there[name], kept[name])


def other_table(tables: str, name: str, found: str, kept: str) -> CheckpointError:
    """Return the error for a table that was recreated."""
    return CheckpointError(
        f"table {name} in {tables} is not the one that the stream started with (id {found}, not {kept}), and may be "
        f"empty: restore the old table, or restart with {_WITHOUT_OLD_ROWS}"
    )


def load_table_ids(checkpoint: str) -> dict[str, str]:
    """Return the stored ids of a stream's tables, by name; empty before the first start.

    Raises:
        CheckpointError: If the ids can't be read.
    """
    remedy = "restore it, or delete it if you are sure that the tables belong to this stream"
    return read_json(Path(checkpoint) / IDS_FILE, dict[str, str], remedy) or {}


def save_table_ids(checkpoint: str, ids: Mapping[str, str]) -> None:
    """Store the ids of a stream's tables.

    Raises:
        CheckpointError: If the ids can't be written.
    """
    if load_table_ids(checkpoint) != ids:
        write_json(Path(checkpoint) / IDS_FILE, dict(ids))


def table_ids(store: TableStore) -> dict[str, str]:
    """Return the current ids of the stream's existing tables, by name.

    Raises:
        TableError: If a table can't be read.
    """
    there = store.existing()
    return {name: store.table_id(name) for name in NEEDED if name in there}

"""What the tests share of one Spark session: it serves the whole run, since a JVM costs seconds to start."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from pyspark.sql import SparkSession

from quota.config import QuotaConfig
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS, view_statements
from tables.store.path_tables import table_path

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@contextmanager
def own_views(session: SparkSession) -> Iterator[SparkSession]:
    """Give a session whose temporary views end with the block: left there, they hide others' tables of their name."""
    before = _views(session)
    try:
        yield session
    finally:
        for name in _views(session) - before:
            session.catalog.dropTempView(name)


def make_views(session: SparkSession, tables: str, now: datetime) -> None:
    """Make temporary views of all tables, and those of the script for Spark as of a moment."""
    for name in TABLES:
        session.read.format("delta").load(table_path(tables, name)).createOrReplaceTempView(name)
    for statement in view_statements(QuotaConfig().window_ms):
        session.sql(statement.replace("OR REPLACE VIEW", "OR REPLACE TEMPORARY VIEW"))
        if statement.split()[4] == SETTINGS:
            # The only thing that is not as it is shipped: the time stands still.
            settings = f"SELECT timestamp'{now:%Y-%m-%d %H:%M:%S}' AS now, {QuotaConfig().window_ms} AS window_ms"
            session.sql(settings).createOrReplaceTempView(SETTINGS)


def plain(records: list[dict[str, Any]]) -> list[dict[str, object]]:
    """Return records with maps, times and numbers in one form; engines differ in theirs."""
    return [{name: _plain(value) for name, value in record.items()} for record in records]


def _plain(value: Any) -> object:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bool | str | list | dict) or value is None:
        return value
    return round(float(value), 6)


def stored_ledgers(session: SparkSession, checkpoint: Path) -> dict[str, bytes]:
    """All ledgers of a checkpoint as they are stored, by principal, in buckets or not."""
    stored = session.read.format("statestore").load(str(checkpoint))
    value = cast("StructType", stored.schema["value"].dataType)
    ledger = next(name for name in value.names if name == "groupState")
    groups = [bytes(row[0]) for row in stored.selectExpr(f"value.{ledger}.*").collect()]
    # A group is four bytes that name its form, then MessagePack: by principal a list with the ledger's bytes.
    decoded = [msgspec.msgpack.decode(group[4:])[0] for group in groups]
    return {principal: held[2] for group in decoded for principal, held in group.items()}


def _views(session: SparkSession) -> set[str]:
    return {table.name for table in session.catalog.listTables() if table.isTemporary}

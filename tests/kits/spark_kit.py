"""What the tests share of one Spark session: it serves the whole run, since a JVM costs seconds to start."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
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

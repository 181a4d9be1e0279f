"""What the tests share of one Spark session: it serves the whole run, since a JVM costs seconds to start."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@contextmanager
def own_views(session: SparkSession) -> Iterator[SparkSession]:
    """Give a session whose temporary views end with the block: left there, they hide others' tables of their name."""
    before = _views(session)
    try:
        yield session
    finally:
        for name in _views(session) - before:
            session.catalog.dropTempView(name)


def _views(session: SparkSession) -> set[str]:
    return {table.name for table in session.catalog.listTables() if table.isTemporary}

"""Runs read-only SQL over the tables and the views of `sql/views`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from tables.store.base import Relations
from tables.store.open import open_store
from tables.store.values import Answer, RowFilter


def query(tables: str, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
    """Run one SELECT; see `TableStore.query` for arguments and errors."""
    with open_store(tables) as store:
        return store.query(sql, now, parameters)


@contextmanager
def opened(tables: str, now: datetime, rows: Mapping[str, RowFilter]) -> Iterator[Relations]:
    """Open tables for several queries; see `TableStore.relations`."""
    with open_store(tables) as store, store.relations(now, rows) as relations:
        yield relations

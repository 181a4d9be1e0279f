"""Opens the store of `--tables`, which is a path or a catalog."""

import re

from tables.store.base import TableStore
from tables.store.catalog import CatalogStore
from tables.store.engines import Engine
from tables.store.path import PathStore

_CATALOG_SCHEMA = re.compile(r"[\w-]+\.[\w-]+")


def open_store(tables: str, engine: Engine | None = None) -> TableStore:
    """Return the store of a folder or `catalog.schema`.

    By default, a Databricks runtime or a SQL warehouse runs the statements on a catalog.
    """
    return CatalogStore(tables, engine) if is_catalog(tables) else PathStore(tables)


def is_catalog(tables: str) -> bool:
    """Return whether `--tables` is `catalog.schema`; anything else is a path.

    Examples:
        >>> is_catalog("main.pid_quota"), is_catalog("./demo.data"), is_catalog("/data/tables"), is_catalog("s3://b/t")
        (True, False, False, False)
    """
    return _CATALOG_SCHEMA.fullmatch(tables) is not None


def is_folder(tables: str) -> bool:
    """Return whether the tables are in a local folder.

    Examples:
        >>> is_folder("./tables"), is_folder("s3://bucket/tables"), is_folder("main.pid_quota")
        (True, False, False)
    """
    return not (is_catalog(tables) or "://" in tables)

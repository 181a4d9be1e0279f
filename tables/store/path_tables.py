"""Locates, creates and opens the Delta tables, without a JVM."""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tables.errors import TableError, TableNotFoundError, first_line
from tables.schema.specs import (
    LOG_RETENTION,
    LOG_RETENTION_PROPERTY,
    TABLES,
    TABLES_VERSION,
    VERSION_PROPERTY,
    TableSpec,
)
from tables.store.migration import bring_up_to_date

if TYPE_CHECKING:
    from deltalake import DeltaTable

_CATALOG_SCHEMA = re.compile(r"[\w-]+\.[\w-]+")


def is_catalog(tables: str) -> bool:
    """Return whether `--tables` is `catalog.schema`; anything else is a path.

    Examples:
        >>> is_catalog("main.pid_quota"), is_catalog("./demo.data"), is_catalog("/data/tables"), is_catalog("s3://b/t")
        (True, False, False, False)
    """
    return _CATALOG_SCHEMA.fullmatch(tables) is not None


def table_path(tables: str, name: str) -> str:
    """Return a table's path below the root, or its three-part name in a catalog.

    Examples:
        >>> table_path("./demo-data/", "throttle_decisions"), table_path("main.pid_quota", "throttle_decisions")
        ('./demo-data/throttle_decisions', 'main.pid_quota.throttle_decisions')
        >>> table_path("my-catalog.q", "throttle_decisions")
        '`my-catalog`.q.throttle_decisions'
    """
    if is_catalog(tables):
        parts = [part if "-" not in part else f"`{part}`" for part in tables.split(".")]
        return ".".join([*parts, name])
    return f"{tables.rstrip('/')}/{name}"


def create_missing(root: str) -> None:
    """Create missing path tables, and add missing columns to those of an earlier version.

    They use only features that `deltalake` supports: no deletion vectors, clustering or row tracking.

    Args:
        root: Folder (or object store address) of the tables.

    Raises:
        TableError: If the folder is not writable.
        TableVersionError: If a newer version created a table.
    """
    from deltalake.exceptions import DeltaError

    if is_catalog(root):
        msg = f"{root} is a catalog, and only path tables are made here. Give a path, such as ./{root}"
        raise TableError(msg)
    _require_writable(root)
    for spec in TABLES.values():
        try:
            _create(spec, table_path(root, spec.name))
        except (DeltaError, OSError) as error:
            msg = f"can't make table {spec.name} in {root}: {first_line(error)}. Check the folder given by --tables"
            raise TableError(msg) from error


def open_table(root: str, name: str) -> "DeltaTable":
    """Open a path table at its newest version.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If it can't be read.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from deltalake.exceptions import TableNotFoundError as NoSuchTable

    try:
        return DeltaTable(table_path(root, name))
    except (NoSuchTable, FileNotFoundError, NotADirectoryError) as error:
        made = f"`pid-quota tables create --tables {root}` makes the tables, and so does the stream"
        msg = f"no table {name} in {root}. Check --tables (or PID_QUOTA_TABLES); {made}"
        raise TableNotFoundError(msg) from error
    except (DeltaError, OSError) as error:
        msg = f"can't read table {name} in {root}: {first_line(error)}. Check the folder given by --tables"
        raise TableError(msg) from error


def _create(spec: TableSpec, path: str) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not DeltaTable.is_deltatable(path):
        try:
            DeltaTable.create(
                path,
                spec.schema,
                mode="ignore",
                name=spec.name,
                description=spec.comment,
                configuration={LOG_RETENTION_PROPERTY: LOG_RETENTION, VERSION_PROPERTY: str(TABLES_VERSION)},
                # Delta does not know the property of our version.
                raise_if_key_not_exists=False,
            )
        except DeltaError:
            # Another process may have created it meanwhile.
            if not DeltaTable.is_deltatable(path):
                raise
    bring_up_to_date(spec, path)


def _require_writable(root: str) -> None:
    if "://" in root:
        return
    try:
        Path(root).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        msg = f"tables path {root} is not writable ({error.strerror}). Choose another folder with --tables"
        raise TableError(msg) from error

"""Locates, creates and opens tables in a folder or object store with `deltalake`."""

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tables.errors import TableError, TableNotFoundError, first_line
from tables.schema.specs import (
    LOG_RETENTION,
    LOG_RETENTION_PROPERTY,
    TABLES,
    TABLES_VERSION,
    VERSION_PROPERTY,
    TableSpec,
)
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.values import Row, require_version

if TYPE_CHECKING:
    from deltalake import DeltaTable


def table_path(tables: str, name: str) -> str:
    """Return a table's path below `tables`.

    Examples:
        >>> table_path("./demo-data/", "throttle_decisions")
        './demo-data/throttle_decisions'
    """
    return f"{tables.rstrip('/')}/{name}"


def create_missing(root: str) -> None:
    """Create missing tables in a folder or object store.

    Raises:
        TableError: If the folder is not writable.
        TableVersionError: If a newer release created a table.
    """
    from deltalake.exceptions import DeltaError

    _require_writable(root)
    for spec in TABLES.values():
        try:
            _create(spec, table_path(root, spec.name))
        except (DeltaError, OSError) as error:
            msg = f"can't create table {spec.name} in {root}: {first_line(error)}. Check the folder given by --tables"
            raise TableError(msg) from error


def open_table(root: str, name: str) -> "DeltaTable":
    """Open a table at its newest version.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If the table can't be read.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from deltalake.exceptions import TableNotFoundError as NoSuchTable

    try:
        return DeltaTable(table_path(root, name))
    except (NoSuchTable, FileNotFoundError, NotADirectoryError) as error:
        create = shlex.join(("pid-quota", "tables", "create", "--tables", str(root)))
        made = f"`{create}` creates the tables, and so does the stream"
        msg = f"no table {name} in {root}. Check --tables (or PID_QUOTA_TABLES); {made}"
        raise TableNotFoundError(msg) from error
    except (DeltaError, OSError) as error:
        msg = f"can't read table {name} in {root}: {first_line(error)}. Check the folder given by --tables"
        raise TableError(msg) from error


def ask(table: "DeltaTable", select: str) -> list[Row]:
    """Run a SELECT over the table, named `t`, with deltalake's engine.

    An Arrow data set would run Python in threads, and a process aborts if it ends before such a thread.
    """
    from deltalake import QueryBuilder

    rows: list[Row] = pa.table(QueryBuilder().register("t", table).execute(select).read_all()).to_pylist(
        maps_as_pydicts="lossy"
    )
    return rows


def is_delta_error(error: Exception) -> bool:
    """Return whether an error is of a type that reading a table raises."""
    from deltalake.exceptions import DeltaError

    # Timestamps outside Python's range raise ValueError or OverflowError.
    return isinstance(error, DeltaError | OSError | pa.ArrowException | ValueError | OverflowError)


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
                # Delta does not know this project's version property.
                raise_if_key_not_exists=False,
            )
        except DeltaError:
            # Another process may have created the table.
            if not DeltaTable.is_deltatable(path):
                raise
    retry_conflicts(lambda: _constrain(spec, DeltaTable(path), path))


def _constrain(spec: TableSpec, table: "DeltaTable", path: str) -> None:
    # deltalake can't create a table with constraints. If two processes create a table at once, both get here, so add
    # only missing constraints.
    present = table.metadata().configuration
    require_version(present.get(VERSION_PROPERTY, "0"), path)
    missing = {name: rule for name, rule in spec.constraints.items() if f"delta.constraints.{name}" not in present}
    if missing and not table.file_uris():
        table.alter.add_constraint(missing, **leaving_old_log())


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

"""Locates, creates and opens tables in a folder or object store with `deltalake`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from quota.typed import typed
from tables.errors import TableError, TableNotFoundError, first_line
from tables.schema.ddl import deltalake_literal, with_literals
from tables.schema.specs import (
    LOG_RETENTION,
    LOG_RETENTION_PROPERTY,
    TABLES,
    TABLES_VERSION,
    VERSION_PROPERTY,
    TableSpec,
)
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.features import require_known, require_whole
from tables.store.values import ALL_ROWS, RowFilter, require_version

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
    """Open a table at its newest version, to append to it or to read its log. `table_to_read` opens its rows.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If the table can't be read, or has an unknown feature.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from deltalake.exceptions import TableNotFoundError as NoSuchTable

    try:
        table = DeltaTable(table_path(root, name))
    except (NoSuchTable, FileNotFoundError, NotADirectoryError) as error:
        create = typed(("pid-quota", "tables", "create", "--tables", str(root)))
        made = f"`{create}` creates the tables, and so does the stream"
        msg = f"no table {name} in {root}. Check --tables (or PID_QUOTA_TABLES); {made}"
        raise TableNotFoundError(msg) from error
    except (DeltaError, OSError) as error:
        raise unreadable(root, name, error) from error
    require_known(table, table_path(root, name))
    return table


def table_to_read(root: str, name: str) -> "DeltaTable":
    """Open a table whose rows are read or rewritten. All readers of rows come through here.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If the table can't be read, has an unknown feature, or has deletion vectors.
    """
    table = open_table(root, name)
    require_whole(table, table_path(root, name))
    return table


def unreadable(root: str, name: str, error: BaseException) -> TableError:
    """Return the error to raise if a table can't be read."""
    return TableError(f"can't read table {name} in {root}: {first_line(error)}. Check the folder given by --tables")


def data_files(table: "DeltaTable") -> pa.Table:
    """Return a row per data file: relative `path`, `size_bytes`, and more."""
    # pyarrow.table() would load pandas.
    return pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()


def select_rows(root: str, name: str, rows: RowFilter = ALL_ROWS) -> pa.Table:
    """Return rows of a table. deltalake's engine skips files by the log's statistics.

    An Arrow data set would run Python in threads, and a process aborts if it ends before such a thread.

    Raises:
        TableNotFoundError: If there is no such table.
        TableError: If the table can't be read.
    """
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    table = table_to_read(root, name)
    select = with_literals(rows.select("t"), rows.values, deltalake_literal)
    try:
        return pa.table(QueryBuilder().register("t", table).execute(select).read_all())
    # Timestamps outside Python's range raise ValueError or OverflowError.
    except (DeltaError, OSError, pa.ArrowException, ValueError, OverflowError) as error:
        raise unreadable(root, name, error) from error


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

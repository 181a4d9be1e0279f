"""Brings a path table of an earlier version to this one: adds nullable columns and settings, and changes no row."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tables.errors import TableVersionError
from tables.facts import missing_columns, spec_columns, type_words
from tables.specs import LOG_RETENTION, LOG_RETENTION_PROPERTY, TABLES_VERSION, VERSION_PROPERTY, TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

_log = logging.getLogger(__name__)

_VERSION = str(TABLES_VERSION)
_ATTEMPTS = 12
"""Commits of others that a change of a table's settings puts up with, and a change each."""


class RowsForbidError(Exception):
    """Raised when a table has rows that a constraint forbids."""


def require_known(spec: TableSpec, table: "DeltaTable", path: str) -> None:
    """Make sure that this version can write a table, perhaps once columns are added to it.

    Raises:
        TableVersionError: If a newer version wrote it, a column is of another type, or one is missing that can't be
            empty.
    """
    require_version(str(table.metadata().configuration.get(VERSION_PROPERTY, "0")), path)
    have = {column.name: type_words(column.type) for column in table.schema().fields}
    for column in spec_columns(spec):
        if column.name not in have:
            if not column.nullable:
                msg = f"table {path} lacks {column.name}, which can't be empty. Choose a new folder with --tables"
                raise TableVersionError(msg)
        elif have[column.name] != type_words(column.type):
            msg = (
                f"column {column.name} of table {path} is {have[column.name]}, and this version writes "
                f"{type_words(column.type)}. Choose a new folder with --tables"
            )
            raise TableVersionError(msg)


def require_version(version: str, place: str) -> None:
    """Make sure that no newer version wrote a table.

    Args:
        version: What the table says of it, "0" if nothing.
        place: Of the table.

    Raises:
        TableVersionError: If one did.
    """
    if not version.isdecimal() or int(version) > TABLES_VERSION:
        msg = (
            f"table {place} is of version {version}, and this pid-quota knows versions up to {TABLES_VERSION}: "
            "install the newer one, or choose another place with --tables"
        )
        raise TableVersionError(msg)


def bring_up_to_date(spec: TableSpec, path: str) -> None:
    """Give a table what it lacks of columns, settings and constraints, beside others that do the same.

    Raises:
        TableVersionError: As of `require_known`; then nothing is changed.
        DeltaError: If the table can't be changed.
    """
    from deltalake import DeltaTable

    require_known(spec, DeltaTable(path), path)
    _until_done(
        path, lambda table: missing_columns(spec, table), lambda table, columns: table.alter.add_columns(columns)
    )
    for name, expression in spec.constraints.items():
        try:
            _until_done(path, partial(_lacks, constraint=name), _adding(name, expression))
        except RowsForbidError:
            # Whoever reads the rows says which ones they are.
            _log.warning("table %s has rows that its constraint %s forbids, and goes on without it", path, name)
    _until_done(path, _missing_settings, _set)


def _until_done(path: str, missing: Callable[["DeltaTable"], Any], change: Callable[["DeltaTable", Any], None]) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    for attempt in range(1, _ATTEMPTS + 1):
        table = DeltaTable(path)
        lacking = missing(table)
        if not lacking:
            return
        try:
            change(table, lacking)
        except DeltaError:
            # Another process may have done it, or something else, at the same moment.
            if attempt == _ATTEMPTS:
                raise


def _add_columns(table: "DeltaTable", columns: list[Any]) -> None:
    table.alter.add_columns(columns)


def _lacks(table: "DeltaTable", constraint: str) -> bool:
    return f"delta.constraints.{constraint}" not in table.metadata().configuration


def _adding(name: str, expression: str) -> "Callable[[DeltaTable, Any], None]":
    from deltalake.exceptions import DeltaError

    def add(table: "DeltaTable", _lacking: Any) -> None:
        try:
            table.alter.add_constraint({name: expression})
        except DeltaError as error:
            if "failed validation" in str(error):
                raise RowsForbidError(name) from error
            raise

    return add


def _missing_settings(table: "DeltaTable") -> dict[str, str]:
    have = table.metadata().configuration
    # Who has set how long the log is kept keeps his value.
    missing = {} if LOG_RETENTION_PROPERTY in have else {LOG_RETENTION_PROPERTY: LOG_RETENTION}
    return missing if have.get(VERSION_PROPERTY) == _VERSION else missing | {VERSION_PROPERTY: _VERSION}


def _set(table: "DeltaTable", settings: dict[str, str]) -> None:
    # The version is no property that Delta knows.
    table.alter.set_table_properties(settings, raise_if_not_exists=False)

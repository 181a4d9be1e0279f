"""Brings tables of version 0.1.0 up to this one: adds the columns that they lack, and changes no row."""

from typing import TYPE_CHECKING

from tables.errors import TableVersionError
from tables.schema.specs import TABLES_VERSION, VERSION_PROPERTY, TableSpec
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.facts import missing_columns

if TYPE_CHECKING:
    from deltalake import DeltaTable


def bring_up_to_date(spec: TableSpec, path: str) -> None:
    """Add what a path table lacks, beside others that do the same.

    Raises:
        TableVersionError: If a newer version made the table.
        DeltaError: If the table can't be changed.
    """
    from deltalake import DeltaTable

    retry_conflicts(lambda: _add_missing(spec, DeltaTable(path), path))


def require_version(version: str, place: str) -> None:
    """Refuse tables of a newer version.

    Args:
        version: What the table says of it, "0" if nothing.
        place: Of the table.

    Raises:
        TableVersionError: If a newer version made the table.
    """
    if not version.isdecimal() or int(version) > TABLES_VERSION:
        msg = (
            f"table {place} is of version {version}, and this pid-quota knows versions up to {TABLES_VERSION}: "
            "install the newer one, or choose another place with --tables"
        )
        raise TableVersionError(msg)


def _add_missing(spec: TableSpec, table: "DeltaTable", path: str) -> None:
    require_version(str(table.metadata().configuration.get(VERSION_PROPERTY, "0")), path)
    columns = missing_columns(spec, table)
    if columns:
        table.alter.add_columns(columns, **leaving_old_log())
    # deltalake can't create a table with its constraints: an empty one gets them here. Two processes that create it at
    # once may both commit: its version says nothing about what it has. Rows can't break a constraint on a new column.
    present, is_empty = table.metadata().configuration, not table.file_uris()
    constraints = {
        name: rule
        for name, rule in spec.constraints.items()
        if f"delta.constraints.{name}" not in present and (is_empty or any(column.name in rule for column in columns))
    }
    if constraints:
        table.alter.add_constraint(constraints, **leaving_old_log())

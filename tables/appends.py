"""Appends to path tables by `deltalake`, beside others that delete old rows."""

import pyarrow as pa

from tables.commits import retry_conflicts
from tables.delta import open_table


def append_rows(tables: str, name: str, rows: pa.Table) -> None:
    """Append rows to a path table, all or none.

    deltalake refuses an append while somebody deletes rows, although an append reads none: it is retried.

    Args:
        tables: Folder of the tables.
        name: Of the table.
        rows: In the table's columns.

    Raises:
        TableError: If the table is missing or can't be read.
        DeltaError: If they are not written.
    """
    from deltalake import write_deltalake

    # Opened, not named: in place of a table that is gone deltalake would make an empty one.
    retry_conflicts(lambda: write_deltalake(open_table(tables, name), rows, mode="append"))

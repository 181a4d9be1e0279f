"""Appends rows to path tables with `deltalake`, while others delete old rows."""

import pyarrow as pa

from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.path_tables import open_table


def append_rows(tables: str, name: str, rows: pa.Table) -> None:
    """Append rows to a path table, all or none.

    deltalake fails an append that overlaps a delete, although an append reads nothing; it is retried.

    Args:
        tables: Folder of the tables.
        name: Of the table.
        rows: In the table's columns.

    Raises:
        TableError: If the table is missing or can't be read.
        DeltaError: If the append fails.
    """
    from deltalake import write_deltalake

    # Open the table first: given a path, deltalake would create a missing table.
    retry_conflicts(lambda: write_deltalake(open_table(tables, name), rows, mode="append", **leaving_old_log()))

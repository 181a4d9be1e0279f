"""Appends to path tables by `deltalake`, beside others that delete old rows."""

import random
import time

import pyarrow as pa

from tables.delta import open_table

_TRIES = 20


def append_rows(tables: str, name: str, rows: pa.Table) -> None:
    """Append rows to a path table, all or none.

    deltalake refuses an append while somebody deleted rows, though it reads none: nothing is written then, and the
    next try sees the table without them.

    Args:
        tables: Folder of the tables.
        name: Of the table.
        rows: In the table's columns.

    Raises:
        TableError: If the table is missing or can't be read.
        DeltaError: If they are not written.
    """
    from deltalake import write_deltalake
    from deltalake.exceptions import CommitFailedError

    for attempt in range(1, _TRIES + 1):
        try:
            # Opened, not named: in place of a table that is gone deltalake would make an empty one.
            write_deltalake(open_table(tables, name), rows, mode="append")
        except CommitFailedError:
            if attempt == _TRIES:
                raise
            # Those who met once must not meet again in step.
            time.sleep(random.SystemRandom().uniform(0.01, 0.1))
        else:
            return

"""Appends to path tables by `deltalake`: some 10 ms where delta-spark takes a second, by the same rule of exactly once.

Both writers note a batch as a transaction of the same application in the table's log, so that either recognises what
the other has written, and a stream may change from one to the other between two batches.
"""

import logging
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from streaming.commit.sinks import application
from tables.delta import open_table
from tables.errors import TableError, first_line

_ATTEMPTS = 20
"""Appends meet only changes of a table's settings and others' appends: each is tried again at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeltalakeSink:
    """Appends by `deltalake`, from the driver.

    Attributes:
        tables: Folder of path tables.
        stream_id: Names the checkpoint, so that batch numbers of another checkpoint are not taken for these.
    """

    tables: str
    stream_id: str

    def append(self, spark: SparkSession, rows: pa.Table, table: str, batch_id: int, mark: str = "") -> None:
        """Append the rows of a batch, idempotent by the application transaction of its commit.

        Raises:
            TableError: If the table can't be written.
        """
        del spark
        for attempt in range(1, _ATTEMPTS + 1):
            if self._holds(table, batch_id):
                return
            try:
                self._write(rows, table, batch_id, mark)
            except Exception as error:
                if not _is_conflict(error) or attempt == _ATTEMPTS:
                    msg = f"can't write table {table} in {self.tables}: {first_line(error)}. Check disk and rights"
                    raise TableError(msg) from error
                _log.warning("%s changed while batch %d was appended: once more", table, batch_id)
            else:
                return

    def _holds(self, table: str, batch_id: int) -> bool:
        written = open_table(self.tables, table).transaction_version(application(self.stream_id, table))
        return written is not None and written >= batch_id

    def _write(self, rows: pa.Table, table: str, batch_id: int, mark: str) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        transaction = Transaction(application(self.stream_id, table), batch_id)
        commit = CommitProperties(
            custom_metadata={"userMetadata": mark} if mark else None, app_transactions=[transaction]
        )
        write_deltalake(open_table(self.tables, table), rows, mode="append", commit_properties=commit)


def _is_conflict(error: Exception) -> bool:
    from deltalake.exceptions import CommitFailedError

    return isinstance(error, CommitFailedError)

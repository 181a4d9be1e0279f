"""Appends to tables at a path with `deltalake`. An append takes about 10 ms. With delta-spark, it takes a second.

Both libraries mark a batch in the table's log in the same way, so a stream may switch between them.
"""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from streaming.checkpoint.commit_metadata import CommitMetadata, require_own
from streaming.commit.sinks import application
from tables.errors import TableError, first_line
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.path_tables import open_table


@dataclass(frozen=True)
class DeltalakeSink:
    """Appends with `deltalake`, from the driver, to tables in the folder `tables`."""

    tables: str
    stream_id: str

    def append(
        self, spark: SparkSession, rows: pa.Table, table: str, batch_id: int, metadata: CommitMetadata | None = None
    ) -> None:
        """Append the rows of a batch; see `TableSink`.

        Raises:
            StreamIdTakenError: If another stream has written the batch.
            TableError: If the table can't be written.
        """
        try:
            is_new = retry_conflicts(lambda: self._append_once(rows, table, batch_id, metadata))
        except TableError:
            raise
        except Exception as error:
            msg = f"can't write table {table} in {self.tables}: {first_line(error)}. Check disk and rights"
            raise TableError(msg) from error
        if metadata is not None and not is_new:
            require_own(spark, self.tables, table, metadata)

    def _append_once(self, rows: pa.Table, table: str, batch_id: int, metadata: CommitMetadata | None) -> bool:
        """Append the rows unless the table has the batch. Return whether the rows were appended."""
        from deltalake import CommitProperties, Transaction, write_deltalake

        name = application(self.stream_id, table)
        opened = open_table(self.tables, table)
        written = opened.transaction_version(name)
        if written is not None and written >= batch_id:
            return False
        commit = CommitProperties(
            custom_metadata=None if metadata is None else {"userMetadata": metadata.to_text()},
            app_transactions=[Transaction(name, batch_id)],
        )
        # Tables of an earlier version may have columns that `rows` lacks. With "merge", these columns get nulls.
        write_deltalake(opened, rows, mode="append", schema_mode="merge", commit_properties=commit, **leaving_old_log())
        return True

"""Runs and commits a micro-batch, in numbered steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from streaming.batch.context import begin_batch, end_batch
from streaming.batch.quotas_in_force import TABLE, read_quotas
from streaming.checkpoint.commit_metadata import DECISIONS, WRITE_ORDER, CommitMetadata
from streaming.checkpoint.data_loss import LossDetector
from streaming.checkpoint.table_ids import load_table_ids
from streaming.commit.sinks import BatchSummary, TableSink
from streaming.operator.rows import by_kind, table_rows, unpack_rows


@dataclass(frozen=True)
class Commit:
    """The function that `foreachBatch` calls.

    Spark has written the batch's offsets before. Whatever the step after which the process dies, Spark repeats the
    batch with the same offsets at the next start:

    | durable after step | what the repeated batch does |
    |---|---|
    | 1: a loss of records | does not find the loss again, and learns |
    | 2: the batch's file | takes quotas, principals and event times from it, so the decisions are the same |
    | 3: state of some tasks | starts from the state before the batch: Spark commits state by batch number |
    | 5: rows of some tables | writes the other tables; a table skips a batch number that it has |
    | 6: what the next batch takes over | writes the same again |
    | 7: Spark's commit | is not repeated |

    Attributes:
        tables: The folder of the tables, or `catalog.schema`.
        observer: Called with each batch whose rows are in the tables.
        decided: Called with each batch whose decisions are in their table.
    """

    sink: TableSink
    stream_id: str
    checkpoint: str
    tables: str
    watch: LossDetector | None = None
    observer: Callable[[BatchSummary], None] | None = None
    decided: Callable[[BatchSummary], None] | None = None

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        """Run a batch and append its rows to the tables."""
        spark = output.sparkSession
        # Step 1. If records were lost, record the loss and abort the batch before any decision.
        if self.watch:
            self.watch.check(batch_id)
        # Step 2. Write the facts of the batch for its tasks.
        own_quotas = load_table_ids(self.checkpoint).get(TABLE)
        context = begin_batch(self.checkpoint, batch_id, partial(read_quotas, spark, self.tables, own_quotas))
        # Step 3. Run the whole batch once. Even if all tables have the batch, the operator's state must be committed.
        bodies = by_kind(unpack_rows(output.toArrow().column("packed").to_pylist()))
        # Step 4. Check again, because records may have been deleted while the batch was read.
        if self.watch:
            self.watch.check(batch_id)
            bodies.setdefault("quarantined_events", []).extend(self.watch.rows(batch_id))
        # Step 5. Append to each table that gets rows.
        written = {table: bodies[table] for table in WRITE_ORDER if bodies.get(table)}
        metadata = CommitMetadata(self.stream_id, batch_id, tuple(written), context.starts, context.ends)
        begin_s = time.monotonic()
        for table in WRITE_ORDER:
            if table in written:
                self.sink.append(spark, table_rows(bodies[table], table, batch_id), table, batch_id, metadata)
            if table == DECISIONS and self.decided:
                # Holds need not wait for the other tables.
                self.decided(BatchSummary(batch_id, written, time.monotonic() - begin_s, context.quotas))
        if self.observer:
            self.observer(BatchSummary(batch_id, written, time.monotonic() - begin_s, context.quotas))
        # Step 6. Add what the next batch takes over. Step 7 is Spark's, after this method returns.
        end_batch(self.checkpoint, batch_id, context, bodies)

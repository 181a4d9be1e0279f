"""Refuses tables of an older backup than the checkpoint: the rows between would be missing, and nothing would tell."""

from pyspark.sql import SparkSession

from streaming.batch.batch_ends import written_batches
from streaming.checkpoint.commit_metadata import newest_metadata
from streaming.checkpoint.spark_files import newest_batch
from streaming.errors import CheckpointError


def refuse_older_tables(spark: SparkSession, tables: str, checkpoint: str, stream_id: str) -> None:
    """Check that each table holds the newest batch that wrote rows to it.

    Args:
        spark: For tables in a catalog.
        tables: Folder of path tables, or `catalog.schema`.
        checkpoint: Folder of the stream's checkpoint.
        stream_id: The stream's own.

    Raises:
        CheckpointError: If a table ends before that batch.
    """
    begun = newest_batch(checkpoint)
    for table, written in ({} if begun is None else written_batches(checkpoint, begun)).items():
        commit = newest_metadata(spark, tables, table)
        # A new table has no commit of this stream (`--new-tables`).
        if commit and commit.stream_id == stream_id and commit.batch_id < written:
            msg = (
                f"{table} ends with batch {commit.batch_id} of this stream, but checkpoint {checkpoint} knows that "
                f"batch {written} wrote rows to it, so the table is of an older backup: bring back the newer table, or "
                "give an empty folder as --checkpoint and --new-checkpoint, to make the missing rows from the topic"
            )
            raise CheckpointError(msg)

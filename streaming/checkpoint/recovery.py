"""Checks before a stream starts that its checkpoint and its tables match, and finds where to start reading.

Tables recognise a repeated batch by stream id and batch number. With a checkpoint that has lost batches, new rows would
be dropped as repeats; with a new one, old rows would be written again.
"""

from pyspark.sql import SparkSession

from streaming.checkpoint.commit_metadata import WRITE_ORDER, CommitMetadata, newest_metadata
from streaming.checkpoint.identity import CheckpointOptions, StreamIdentity, existing, load_or_create, save
from streaming.checkpoint.spark_files import as_spark_json, newest_batch
from streaming.errors import CheckpointError
from tables.store.engines import SparkEngine
from tables.store.open import open_store

EARLIEST = "earliest"


def open_identity(
    spark: SparkSession, tables: str, options: CheckpointOptions, *, new_checkpoint: bool
) -> StreamIdentity:
    """Return the identity of a stream after checking that its checkpoint and tables match.

    Args:
        spark: For tables in a catalog.
        tables: Folder of path tables, or `catalog.schema`.
        options: Of the checkpoint.
        new_checkpoint: Whether a stream may start on tables that hold rows of an earlier one. It then resumes where
            those rows end.

    Raises:
        CheckpointError: If rows would be lost or written twice.
    """
    checkpoint = options.checkpoint
    begun = newest_batch(checkpoint)
    commits = {table: newest_metadata(spark, tables, table) for table in WRITE_ORDER}
    identity = existing(checkpoint)
    if identity is not None:
        _require_not_behind(identity, begun, commits, checkpoint)
    starting = EARLIEST
    if begun is None and not (identity and identity.starting_offsets):
        store = open_store(tables, SparkEngine(spark))
        earlier = [table for table, commit in commits.items() if commit or store.has_rows(table)]
        if earlier and not new_checkpoint:
            msg = (
                f"checkpoint {checkpoint} is new, but {earlier[0]} in {tables} holds rows of an earlier stream: give "
                f"that stream's --checkpoint, or other --tables, or --new-checkpoint to go on from where its rows end"
            )
            raise CheckpointError(msg)
        starting = resume_offsets([commit for commit in commits.values() if commit])
    identity = load_or_create(options)
    return identity if identity.starting_offsets else save(checkpoint, identity, starting)


def resume_offsets(commits: list[CommitMetadata]) -> str:
    """Return the offsets from which a new stream resumes where the rows of the newest stream end.

    If that stream died between two tables, its last batch is read again: duplicate rows rather than missing ones.

    Args:
        commits: Metadata of the newest commit of each table.

    Examples:
        >>> decided = CommitMetadata("s", 7, ("throttle_decisions",), {"t": {0: 5}}, {"t": {0: 9}})
        >>> resume_offsets([decided, CommitMetadata("s", 3, ("producer_id_metrics",), {"t": {0: 1}}, {"t": {0: 2}})])
        '{"t": {"0": 9}}'
        >>> resume_offsets([])
        'earliest'
    """
    newest = max(commits, key=lambda commit: (commit.committed_ms, commit.batch_id), default=None)
    if newest is None or not newest.ends:
        return EARLIEST
    there = [commit for commit in commits if (commit.stream_id, commit.batch_id) == (newest.stream_id, newest.batch_id)]
    offsets = newest.ends if len(there) >= len(newest.tables) else newest.starts
    return as_spark_json(offsets) if offsets else EARLIEST


def _require_not_behind(
    identity: StreamIdentity, begun: int | None, commits: dict[str, CommitMetadata | None], checkpoint: str
) -> None:
    for table, commit in commits.items():
        if commit and commit.stream_id == identity.stream_id and (begun is None or commit.batch_id > begun):
            msg = (
                f"checkpoint {checkpoint} knows {'no batch' if begun is None else f'batches up to {begun}'}, but "
                f"{table} already holds batch {commit.batch_id} of this stream, and new rows would be taken for old "
                f"ones: restore the newer checkpoint, or give an empty folder as --checkpoint and --new-checkpoint"
            )
            raise CheckpointError(msg)

"""The identity of a stream: id, salt, learning time, settings. The first start stores the identity in the checkpoint.

Before a stream starts, this module compares the checkpoint with the tables. Tables recognise a repeated batch by stream
id and batch number. With an old copy of the checkpoint, tables would drop new rows as repeats. With a new checkpoint,
the stream would write old rows again.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from quota.config import QuotaConfig
from state.learning import Learning
from streaming.checkpoint.commit_metadata import (
    EARLIEST,
    WRITE_ORDER,
    CommitMetadata,
    newest_metadata,
    resume_offsets,
)
from streaming.checkpoint.own_files import read_json, unusable, write_json
from streaming.checkpoint.spark_files import START_ANEW, newest_batch
from streaming.errors import CheckpointError
from tables.store.engines import SparkEngine
from tables.store.open import open_store

IDENTITY_FILE = "pid-quota.json"
CHECKPOINT_FORMAT = 3
"""Format of our files in a checkpoint, and of the state's rows. Raise the number with each change."""


@dataclass(frozen=True, kw_only=True)
class StreamIdentity:
    """The identity of a stream, fixed while its checkpoint exists.

    Attributes:
        stream_id: Identifies the checkpoint in every Delta commit.
        salt: Secret for the hashes of PIDs.
        learn_until_ms: End of the stream's own learning time, in event time; 0 if it has none.
        learn_below: The cluster's next producer id at the first start; None if unknown.
        starting_offsets: Offsets of the first batch, in the form of Spark's option `startingOffsets`; empty if unknown.
        format: `CHECKPOINT_FORMAT` at the first start. A release with another value refuses the checkpoint.
    """

    stream_id: str
    salt: int
    learn_until_ms: int
    learn_below: int | None
    window_seconds: int
    starting_offsets: str = ""
    format: int = CHECKPOINT_FORMAT

    @property
    def learning(self) -> Learning:
        """The stream's own learning time."""
        return Learning(self.learn_until_ms, self.learn_below)


@dataclass(frozen=True)
class CheckpointOptions:
    """Options that the first start stores in the checkpoint. Later starts don't change the learning time.

    Attributes:
        checkpoint: Path of a folder on a local disk or a Databricks volume.
        config: The checkpoint stores only the window, on which the state depends.
    """

    checkpoint: str
    config: QuotaConfig
    learn_until_ms: int
    learn_below: int | None = None


def open_identity(
    spark: SparkSession, tables: str, options: CheckpointOptions, written: Mapping[str, int], *, new_checkpoint: bool
) -> StreamIdentity:
    """Check that a stream's checkpoint and tables match, and return the identity.

    `written` is the newest batch that wrote rows, by table, according to the checkpoint. If `new_checkpoint` is true, a
    new stream may resume where an earlier stream's rows end.

    Raises:
        CheckpointError: If rows would be lost or written twice.
    """
    checkpoint = options.checkpoint
    begun = newest_batch(checkpoint)
    commits = {table: newest_metadata(spark, tables, table) for table in WRITE_ORDER}
    identity = stored_identity(checkpoint)
    if identity is not None:
        _require_not_behind(identity, begun, commits, checkpoint)
        _require_not_ahead(identity, written, commits, checkpoint)
    starting = EARLIEST
    if begun is None and not (identity and identity.starting_offsets):
        store = open_store(tables, SparkEngine(spark))
        earlier = [table for table, commit in commits.items() if commit or store.has_rows(table)]
        if earlier and not new_checkpoint:
            msg = (
                f"checkpoint {checkpoint} is new, but {earlier[0]} in {tables} holds rows of an earlier stream: give "
                f"that stream's --checkpoint, or other --tables, or --new-checkpoint to resume where its rows end"
            )
            raise CheckpointError(msg)
        starting = resume_offsets([commit for commit in commits.values() if commit])
    identity = load_or_create(options)
    if not identity.starting_offsets:
        identity = replace(identity, starting_offsets=starting)
        write_json(Path(checkpoint) / IDENTITY_FILE, identity)
    return identity


def load_or_create(options: CheckpointOptions) -> StreamIdentity:
    """Return the identity in a checkpoint folder. The first start creates it.

    Raises:
        CheckpointError: If the folder can't be used, or belongs to a stream with other settings.
    """
    checkpoint = options.checkpoint
    if "://" in checkpoint:
        msg = f"checkpoint {checkpoint} is not a folder path: give a local folder or one below /Volumes"
        raise CheckpointError(msg)
    kept = stored_identity(checkpoint)
    if kept is not None:
        require_same_window(kept, options)
        return kept
    try:
        has_begun = (Path(checkpoint) / "metadata").exists()
    except OSError as error:
        raise unusable(Path(checkpoint), error) from error
    if has_begun:
        msg = f"checkpoint {checkpoint} has no {IDENTITY_FILE}: restore it from a backup, or start a new checkpoint"
        raise CheckpointError(msg)
    identity = StreamIdentity(
        stream_id=secrets.token_hex(8),
        salt=secrets.randbits(63),
        learn_until_ms=options.learn_until_ms,
        learn_below=options.learn_below,
        window_seconds=options.config.window_seconds,
    )
    write_json(Path(checkpoint) / IDENTITY_FILE, identity)
    return identity


def stored_identity(checkpoint: str) -> StreamIdentity | None:
    """Return the identity in a checkpoint; None before the first start.

    Raises:
        CheckpointError: If the identity can't be read, or its format is not `CHECKPOINT_FORMAT`.
    """
    kept = read_json(Path(checkpoint) / IDENTITY_FILE, StreamIdentity, START_ANEW)
    if kept is not None and kept.format != CHECKPOINT_FORMAT:
        msg = (
            f"checkpoint {checkpoint} has format {kept.format}, this release of pid-quota reads {CHECKPOINT_FORMAT}: "
            "start the release that wrote it, or give an empty folder as --checkpoint and --new-checkpoint, to go on "
            "from where its rows end"
        )
        raise CheckpointError(msg)
    return kept


def require_same_window(kept: StreamIdentity, options: CheckpointOptions) -> None:
    """Raise CheckpointError if a checkpoint was begun with another window."""
    before, asked = kept.window_seconds, options.config.window_seconds
    if before != asked:
        msg = (
            f"{Path(options.checkpoint) / IDENTITY_FILE} has window_seconds={before}, but this start sets {asked}: "
            f"keep {before} or use a new checkpoint"
        )
        raise CheckpointError(msg)


def _require_not_behind(
    identity: StreamIdentity, begun: int | None, commits: dict[str, CommitMetadata | None], checkpoint: str
) -> None:
    for table, commit in commits.items():
        if commit and commit.stream_id == identity.stream_id and (begun is None or commit.batch_id > begun):
            msg = (
                f"checkpoint {checkpoint} has {'no batch' if begun is None else f'batches up to {begun}'}, but "
                f"{table} already holds batch {commit.batch_id} of this stream, so new rows would be dropped as "
                f"repeats: restore the newer checkpoint, or give an empty folder as --checkpoint and --new-checkpoint"
            )
            raise CheckpointError(msg)


def _require_not_ahead(
    identity: StreamIdentity, written: Mapping[str, int], commits: dict[str, CommitMetadata | None], checkpoint: str
) -> None:
    for table, batch_id in written.items():
        commit = commits[table]
        # With `--new-tables`, a new table has no commit of this stream.
        if commit and commit.stream_id == identity.stream_id and commit.batch_id < batch_id:
            msg = (
                f"{table} ends with batch {commit.batch_id} of this stream, but checkpoint {checkpoint} knows that "
                f"batch {batch_id} wrote rows to it, so the table is of an older backup: bring back the newer table, "
                "or give an empty folder as --checkpoint and --new-checkpoint, to make the missing rows from the topic"
            )
            raise CheckpointError(msg)

"""Metadata that the stream adds to each commit to a table: its id, the batch, and the batch's offsets.

If the checkpoint is lost, the metadata tells a new stream where to start.
"""

import msgspec
from pyspark.sql import SparkSession

from streaming.checkpoint.spark_files import as_spark_json
from streaming.errors import StreamIdTakenError
from tables.store.engines import SparkEngine
from tables.store.open import open_store
from tables.store.values import TableCommit

_LOOK_BACK = (20, 5000)
"""Number of newest commits to search: at first, and again if nothing was found. Maintenance adds commits."""

EARLIEST = "earliest"
"""Spark's name for the offset of the oldest record."""

DECISIONS = "throttle_decisions"
WRITE_ORDER = (DECISIONS, "producer_id_metrics", "quarantined_events")
"""Order in which a batch writes its tables. The table of decisions is first, because people wait for decisions."""


class CommitMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """Metadata of a batch in its commit (Delta's `userMetadata`).

    Attributes:
        tables: All tables that the batch writes to.
        starts: The batch's first offset, by topic and partition.
        ends: Offset after the batch's last record, by topic and partition.
        committed_ms: Time of the commit, from the table's log.
    """

    stream_id: str
    batch_id: int
    tables: tuple[str, ...] = ()
    starts: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    committed_ms: int = 0

    def to_text(self) -> str:
        """Return the metadata as JSON."""
        return msgspec.json.encode(self).decode()


def require_own(spark: SparkSession, tables: str, table: str, own: CommitMetadata) -> None:
    """Check that no other stream with the same id has written a table's newest batch.

    `own` is this stream's metadata of a batch that the table holds.

    Raises:
        StreamIdTakenError: If the table holds the batch with other offsets, or a newer batch with this stream id.
        TableError: If the table can't be read.
    """
    there = newest_metadata(spark, tables, table)
    if there is None or there.stream_id != own.stream_id or there.batch_id < own.batch_id:
        # The newest metadata is of another stream or an older batch, so there is nothing to compare.
        return
    if there.batch_id > own.batch_id:
        differs = f"batch {there.batch_id}, while this stream writes batch {own.batch_id}"
    elif there.ends and own.ends and (there.starts, there.ends) != (own.starts, own.ends):
        differs = f"batch {own.batch_id} with other records: {_difference(there, own)}"
    else:
        return
    msg = (
        f"another stream writes with this id: {table} holds {differs}. Two streams run on copies of one checkpoint: "
        f"stop the other, then start this one with an empty folder as --checkpoint and --new-checkpoint"
    )
    raise StreamIdTakenError(msg)


def _difference(there: CommitMetadata, own: CommitMetadata) -> str:
    places = sorted({(topic, number) for each in (there, own) for topic, ends in each.ends.items() for number in ends})
    for place in places:
        theirs, ours = _range(there, *place), _range(own, *place)
        if theirs != ours:
            return f"partition {place[1]} of {place[0]} from {theirs}, not from {ours}"
    return "partitions that no longer exist"


def _range(commit: CommitMetadata, topic: str, partition: int) -> str:
    starts, ends = (offsets.get(topic, {}).get(partition, "none") for offsets in (commit.starts, commit.ends))
    return f"{starts} to {ends}"


def newest_metadata(spark: SparkSession, tables: str, table: str) -> CommitMetadata | None:
    """Return the newest metadata that a stream has committed to a table, or None.

    Raises:
        TableError: If the table can't be read.
    """
    store = open_store(tables, SparkEngine(spark))
    for limit in _LOOK_BACK:
        commits = store.history(table, limit)
        found = [metadata for metadata in map(_parse, commits) if metadata is not None]
        if found:
            return found[0]
        if len(commits) < limit:
            break
    return None


def resume_offsets(commits: list[CommitMetadata]) -> str:
    """Return the offsets at which the stream that wrote last ended, given the newest metadata of each table.

    If a table lacks rows of that stream's last batch, return the batch's first offsets, because duplicate rows are
    better than missing rows.

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


def _parse(commit: TableCommit) -> CommitMetadata | None:
    try:
        metadata = msgspec.json.decode(commit.metadata, type=CommitMetadata)
    except msgspec.MsgspecError:
        return None
    return msgspec.structs.replace(metadata, committed_ms=commit.committed_ms)

"""Metadata in each commit of the stream to a table: the stream, the batch, and the offsets that it read.

If the checkpoint is lost, the tables still tell what was reported and where a new stream has to start reading.
"""

import msgspec
from pyspark.sql import SparkSession

from tables.delta import is_catalog, open_table, table_path

_LOOK_BACK = (20, 5000)
"""Commits of a table to search: those after the stream's last are maintenance, and few."""

_Commit = tuple[str, int]
"""A commit's `userMetadata` and its time in milliseconds since the epoch."""

WRITE_ORDER = ("throttle_decisions", "producer_id_metrics", "quarantined_events")
"""Decisions first: the enforcer acts on them."""


class CommitMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a commit records of its batch, in Delta's `userMetadata`.

    Attributes:
        stream_id: Names the checkpoint.
        batch_id: The batch.
        tables: All tables that the batch writes to.
        starts: Next offset of the batch before, by topic and partition.
        ends: The batch's own.
        committed_ms: Time of the commit in milliseconds since the epoch, from the table's log; not stored.
    """

    stream_id: str
    batch_id: int
    tables: tuple[str, ...] = ()
    starts: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    committed_ms: int = 0

    def to_text(self) -> str:
        """Return the metadata as it is stored."""
        return msgspec.json.encode(self).decode()


def newest_metadata(spark: SparkSession, tables: str, table: str) -> CommitMetadata | None:
    """Return the metadata of the stream's newest commit to a table, None if there is none.

    Raises:
        TableError: If a path table can't be read.
    """
    for limit in _LOOK_BACK:
        commits = _by_spark(spark, tables, table, limit) if is_catalog(tables) else _by_path(tables, table, limit)
        found = [metadata for metadata in map(_parse, commits) if metadata is not None]
        if found:
            return found[0]
        if len(commits) < limit:
            break
    return None


def holds_rows(spark: SparkSession, tables: str, table: str) -> bool:
    """Say whether a table has any row."""
    if is_catalog(tables):
        return not spark.read.table(table_path(tables, table)).isEmpty()
    return bool(open_table(tables, table).file_uris())


def _by_path(tables: str, table: str, limit: int) -> list[_Commit]:
    commits = open_table(tables, table).history(limit)
    return [(str(commit.get("userMetadata", "")), int(commit.get("timestamp", 0))) for commit in commits]


def _by_spark(spark: SparkSession, tables: str, table: str, limit: int) -> list[_Commit]:
    history = spark.sql(f"DESCRIBE HISTORY {table_path(tables, table)} LIMIT {limit}")
    rows = history.selectExpr(
        "coalesce(userMetadata, '') AS metadata", "unix_millis(timestamp) AS committed_ms"
    ).collect()
    return [(row["metadata"], row["committed_ms"]) for row in rows]


def _parse(commit: _Commit) -> CommitMetadata | None:
    text, committed_ms = commit
    try:
        return msgspec.structs.replace(msgspec.json.decode(text, type=CommitMetadata), committed_ms=committed_ms)
    except msgspec.MsgspecError:
        return None

"""A mark in each commit of the stream to a table: which batch of which stream it was, and which records it read.

With a lost checkpoint, the tables thus still know what has been reported and from where a new stream has to read.
"""

import msgspec
from pyspark.sql import SparkSession

from tables.delta import is_catalog, open_table, table_path

_LOOK_BACK = (20, 5000)
"""Commits of a table to look at: those after the stream's last are maintenance, and rarely many."""

_Commit = tuple[str, int]
"""What a commit says in `userMetadata`, and when it was, in milliseconds."""

WRITE_ORDER = ("throttle_decisions", "producer_id_metrics", "quarantined_events")
"""Decisions first: somebody acts on them."""


class CommitMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a commit says of its batch, in Delta's `userMetadata`.

    Attributes:
        stream_id: The checkpoint.
        batch_id: The batch.
        tables: All tables that the batch writes to.
        starts: Next offset of the batch before, by topic and partition.
        ends: The batch's own.
        committed_ms: When the table took it, in milliseconds since the epoch; the table's own word, not stored here.
    """

    stream_id: str
    batch_id: int
    tables: tuple[str, ...] = ()
    starts: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    committed_ms: int = 0

    def to_text(self) -> str:
        """Return the mark as it is stored."""
        return msgspec.json.encode(self).decode()


def newest_metadata(spark: SparkSession, tables: str, table: str) -> CommitMetadata | None:
    """Return the mark of the stream's newest commit to a table, or None if there is none.

    Raises:
        TableError: If a path table can't be read.
    """
    for limit in _LOOK_BACK:
        commits = _by_spark(spark, tables, table, limit) if is_catalog(tables) else _by_path(tables, table, limit)
        found = [mark for mark in map(_parse, commits) if mark is not None]
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
    rows = history.selectExpr("coalesce(userMetadata, '') AS mark", "unix_millis(timestamp) AS committed_ms").collect()
    return [(row["mark"], row["committed_ms"]) for row in rows]


def _parse(commit: _Commit) -> CommitMetadata | None:
    text, committed_ms = commit
    try:
        return msgspec.structs.replace(msgspec.json.decode(text, type=CommitMetadata), committed_ms=committed_ms)
    except msgspec.MsgspecError:
        return None

"""Heartbeats of taps: the records of the topic `tap-status`."""

from typing import Annotated

import msgspec


class FilePosition(msgspec.Struct, frozen=True, tag="file"):
    """A position in a file, which may have been renamed, compressed or copied since.

    Attributes:
        offset: byte offset in the uncompressed file.
        head: hash of the first `head_bytes`, which identifies the file.
        written_ns: time of the file's last write. If the file is gone, the tap continues with newer files.
    """

    inode: int
    offset: Annotated[int, msgspec.Meta(ge=0)]
    head_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    head: str = ""
    written_ns: int = 0


class TopicPosition(msgspec.Struct, frozen=True, tag="topic"):
    """A position in a topic: the offset of each partition's next record."""

    topic: str
    offsets: dict[int, int]


Position = FilePosition | TopicPosition


class TapHeartbeat(msgspec.Struct, frozen=True):
    """A record of the topic `tap-status`, keyed by broker: a tap's state for one broker.

    Attributes:
        tap_id: id of this run of the tap.
        source: `file`, `topic` or `poll`.
        counters: see `broker.tap.source_tap.TapCounters`; `bad_lines` and the source's counters cover the whole tap.
        position: the position after the lines that the tap has read, or None.
        behind_bytes: bytes of a file that the tap has not read yet.
        lag_records: records of a topic that the tap has not read yet.
        stopped: whether the tap shut down cleanly.
        problem: why a running tap does not see the broker's producers, or None.
    """

    timestamp_ms: int
    broker_id: int
    host: str
    tap_id: str
    source: str
    counters: dict[str, int]
    position: Position | None
    behind_bytes: int | None
    lag_records: int | None
    newest_line_ms: int | None
    stopped: bool
    cluster_brokers: list[int] = []
    bad_samples: list[str] = []
    problem: str | None = None
    class_version: str | None = None
    kafka_version: str | None = None

    @property
    def lacks_file(self) -> bool:
        """Whether the file of lines is missing."""
        return self.source == "file" and self.position is None

    def key(self) -> bytes:
        """Return the key: the broker's id."""
        return str(self.broker_id).encode()

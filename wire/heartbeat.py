"""Heartbeats of taps: the records of the topic `tap-status`."""

from typing import Annotated

import msgspec


class FilePosition(msgspec.Struct, frozen=True, tag="file"):
    """A position in a file that may since have been renamed, compressed, or copied and truncated.

    Attributes:
        offset: in bytes, of the uncompressed file.
        head: hash of its first `head_bytes`, which identifies the file.
        written_ns: when it was last written; if it is gone, files written earlier have been read.
    """

    inode: int
    offset: Annotated[int, msgspec.Meta(ge=0)]
    head_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    head: str = ""
    written_ns: int = 0


class TopicPosition(msgspec.Struct, frozen=True, tag="topic"):
    """A position in a topic: the offset of the next record by partition."""

    topic: str
    offsets: dict[int, int]


Position = FilePosition | TopicPosition


class TapHeartbeat(msgspec.Struct, frozen=True):
    """A record of the topic `tap-status`, keyed by broker: a tap's state for one broker.

    Attributes:
        tap_id: id of this run of the tap.
        source: `file`, `topic` or `poll`.
        counters: see `broker.tap.source_tap.TapCounters`; those of the source and bad lines are of the whole tap.
        position: as in the tap's position file; None if nothing was read yet.
        behind_bytes: bytes of the file not read yet; None for other sources.
        lag_records: records of the topic not read yet; None for other sources.
        newest_line_ms: time of the newest line of the broker, which writes one every 10 s; None before the first.
        stopped: the tap shut down cleanly.
        cluster_brokers: ids of all brokers of the cluster, with a tap or without.
        problem: why the broker's producers are not seen, although its tap reads on; None if they are.
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
        """Whether the file of lines is not there, so that nothing is seen."""
        return self.source == "file" and self.position is None

    def key(self) -> bytes:
        """The key: the broker's id."""
        return str(self.broker_id).encode()

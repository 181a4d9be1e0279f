"""What a tap says of itself: the records of the topic `tap-status`, and what they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec


class FilePosition(msgspec.Struct, frozen=True, tag="file"):
    """A place in a file that may since have been renamed, compressed, or copied and cut.

    Attributes:
        inode: of the file.
        offset: in bytes, of the uncompressed file.
        head_bytes: how much of its beginning is in `head`.
        head: hash of its beginning: the same file under another name, also as `.gz` or as a copy, begins the same.
        written_ns: when it was written last; should it be gone, files written earlier were read.
    """

    inode: int
    offset: Annotated[int, msgspec.Meta(ge=0)]
    head_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    head: str = ""
    written_ns: int = 0


class TopicPosition(msgspec.Struct, frozen=True, tag="topic"):
    """A place in each partition of a topic.

    Attributes:
        topic: its name.
        offsets: of the next record, by partition.
    """

    topic: str
    offsets: dict[int, int]


Position = FilePosition | TopicPosition


@dataclass(frozen=True)
class BorrowedId:
    """A producer id that was used by another principal than the one it was handed out to."""

    producer_id: int
    owner: str
    user: str


class TapHeartbeat(msgspec.Struct, frozen=True):
    """A record of the topic `tap-status`, keyed by broker: what a tap says of one broker it watches.

    Attributes:
        timestamp_ms: the tap's clock.
        broker_id: of the broker.
        host: that the tap runs on.
        tap_id: of this run of the tap.
        source: `file`, `topic` or `poll`.
        counters: see `broker.tap.tap_counters`, since the start; those not of lines are of the tap, not of one broker.
        position: of the tap, as in its position file; None if nothing came yet.
        behind_bytes: of the file that were not read yet; None for other sources.
        lag_records: of the topic that were not read yet; None for other sources.
        newest_line_ms: time of the broker's last batch; None if none came yet.
        unplaced_share: of the batches since the last heartbeat, as `unknown`: 0 to 1.
        borrowed: the last producer ids that others used than those they were handed out to.
        stopped: the tap ended in good order.
        cluster_brokers: ids of the brokers that the cluster had then: some may have no tap.
        bad_samples: how the last bad lines began.
        logging: whether the broker's log was on when that was asked last; None if it was not asked or not told.
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
    unplaced_share: float
    borrowed: list[BorrowedId]
    stopped: bool
    cluster_brokers: list[int] = []
    bad_samples: list[str] = []
    logging: bool | None = None

    def key(self) -> bytes:
        """One broker, one record."""
        return str(self.broker_id).encode()

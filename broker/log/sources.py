"""Where a tap's lines come from: what a source has to do, and the one of a file. The other: `log_topic`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.errors import TapError
from broker.log.log_file import LogFile
from broker.log.source_counters import SourceCounters
from wire.heartbeat import FilePosition, Position


@dataclass(frozen=True)
class LineBatch:
    """Lines of one broker, in their order.

    Attributes:
        stream: names the broker as the source knows it.
        broker_id: of that broker, if the source knows it.
        lines: without what ends them.
        repeated: they may have been sent by a run that crashed.
        after_loss: what was written before them was gone before it was read.
    """

    stream: str
    broker_id: int | None
    lines: list[bytes]
    repeated: bool = False
    after_loss: bool = False


class Source(Protocol):
    """What the tap reads; all of it is used by one thread."""

    kind: str
    """`file` or `topic`, for the heartbeat."""

    def open(self, position: Position | None, sent_up_to: Position | None) -> None:
        """Go on at `position`; lines before `sent_up_to` are handed out as repeated."""

    def read(self) -> list[LineBatch]:
        """What came since; empty if nothing did. May wait for some 100 ms."""

    @property
    def streams(self) -> list[tuple[str, int]]:
        """Names and brokers of the streams that are known before their lines come."""

    @property
    def position(self) -> Position | None:
        """Behind everything that was handed out; None if there is nothing yet."""

    @property
    def lag(self) -> int:
        """Bytes of a file, records of a topic, that were not handed out yet."""

    @property
    def counters(self) -> SourceCounters:
        """As they are now."""

    def close(self) -> None:
        """End it."""


class FileSource:
    """The log file of one broker.

    Args:
        path: what our log settings make the broker write; may appear later.
        broker_id: of that broker.
        from_end: without a saved position, begin at the end of the file instead of at its beginning.
    """

    kind = "file"

    def __init__(self, path: Path, broker_id: int, *, from_end: bool = False) -> None:
        self._path = path
        self._broker_id = broker_id
        self._from_end = from_end
        self._file = LogFile(path)
        self._sent_up_to: FilePosition | None = None
        self._lines = 0
        self._losses_told = 0

    def __repr__(self) -> str:
        return f"FileSource({str(self._path)!r}, broker_id={self._broker_id})"

    def open(self, position: Position | None, sent_up_to: Position | None) -> None:
        """Open the file.

        Raises:
            TapError: the position is that of a topic, or the file cannot be read.
        """
        if position is not None and not isinstance(position, FilePosition):
            msg = f"the position file is of topic {position.topic!r}, not of a log file: name another position file"
            raise TapError(msg)
        self._sent_up_to = sent_up_to if isinstance(sent_up_to, FilePosition) else None
        self._file.open_at(position, from_end=self._from_end)

    def read(self) -> list[LineBatch]:
        """The next lines of the file."""
        begin = self._file.position
        lines = self._file.read()
        if not lines:
            if self._file.unread_bytes == 0:
                self._sent_up_to = None
            return []
        self._lines += len(lines)
        stream = str(self._broker_id)
        repeated = self._repeated(lines, begin)
        lost, self._losses_told = self._file.lost_files > self._losses_told, self._file.lost_files
        batches = [(lines[:repeated], True), (lines[repeated:], False)]
        return [LineBatch(stream, self._broker_id, part, again, lost) for part, again in batches if part]

    @property
    def streams(self) -> list[tuple[str, int]]:
        """The one broker."""
        return [(str(self._broker_id), self._broker_id)]

    @property
    def position(self) -> FilePosition | None:
        """Behind the last whole line."""
        return self._file.position

    @property
    def lag(self) -> int:
        """Bytes that were not read yet."""
        return self._file.unread_bytes

    @property
    def counters(self) -> SourceCounters:
        """Of the file."""
        file = self._file
        return SourceCounters(self._lines, file.rotations, file.truncations, file.oversized_lines, file.lost_files)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _repeated(self, lines: list[bytes], begin: FilePosition | None) -> int:
        """How many of these lines a crashed run may have sent."""
        limit = self._sent_up_to
        if limit is None:
            return 0
        now = self._file.position
        if now is None or begin is None or not now.inode == begin.inode == limit.inode:
            # Still in a file before that of the limit, or the limit's was compressed: then it ends where that does.
            return len(lines)
        at, end_bytes = begin.offset, self._file.end_bytes
        for index, line in enumerate(lines):
            if at >= limit.offset:
                self._sent_up_to = None
                return index
            at += len(line) + end_bytes
        return len(lines)

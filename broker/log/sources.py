"""Sources of a tap's lines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.errors import TapError
from broker.log.log_file import LogFile
from wire.heartbeat import FilePosition, Position


@dataclass
class SourceCounters:
    """Counters since the start. `lost_files` counts files, or ranges of a topic's records, that were deleted unread."""

    lines: int = 0
    rotations: int = 0
    truncations: int = 0
    oversized_lines: int = 0
    lost_files: int = 0


@dataclass(frozen=True)
class LineBatch:
    """Lines of a file or partition (`stream`), in order and without line ends.

    Attributes:
        broker_id: The broker that must have written the lines; None accepts any broker.
        repeated: Whether a crashed tap may have sent the events of the lines.
        after_loss: Whether earlier lines were lost.
    """

    stream: str
    broker_id: int | None
    lines: list[bytes]
    repeated: bool = False
    after_loss: bool = False


class Source(Protocol):
    """A source of lines. It is not thread-safe."""

    kind: str
    """`file` or `topic`, for the heartbeat."""
    brokers: list[int]
    """Ids of the brokers that are known before their first line."""

    def open(self, position: Position | None, sent_up_to: Position | None) -> None:
        """Resume at `position`. Lines before `sent_up_to` are marked as repeated."""

    def read(self) -> list[LineBatch]:
        """Return new lines. This may block for about 100 ms."""

    @property
    def position(self) -> Position | None:
        """The position after all returned lines, or None."""

    @property
    def lag(self) -> int:
        """Bytes of a file, or records of a topic, that were not returned yet."""

    @property
    def counters(self) -> SourceCounters:
        """Current counters."""

    def close(self) -> None:
        """Close the source."""


class FileSource:
    """A source of lines in the file of one broker. The file may not exist yet.

    `from_end` starts at the end if no position is saved.
    """

    kind = "file"

    def __init__(self, path: Path, broker_id: int, *, from_end: bool = False) -> None:
        self._path = path
        self.brokers = [broker_id]
        self._from_end = from_end
        self._file = LogFile(path)
        self._sent_up_to: FilePosition | None = None
        self._lines = 0
        self._losses_reported = 0

    def __repr__(self) -> str:
        return f"FileSource({str(self._path)!r}, broker_id={self.brokers[0]})"

    def open(self, position: Position | None, sent_up_to: Position | None) -> None:
        """Open the file."""
        if position is not None and not isinstance(position, FilePosition):
            msg = f"the position file belongs to topic {position.topic!r}, not to a file: use another position file"
            raise TapError(msg)
        self._sent_up_to = sent_up_to if isinstance(sent_up_to, FilePosition) else None
        self._file.open_at(position, from_end=self._from_end)

    def read(self) -> list[LineBatch]:
        """Return the next lines of the file."""
        begin = self._file.position
        lines = self._file.read()
        if not lines:
            if self._file.unread_bytes == 0:
                self._sent_up_to = None
            return []
        self._lines += len(lines)
        repeated = self._repeated(lines, begin)
        lost, self._losses_reported = self._file.lost_files > self._losses_reported, self._file.lost_files
        batches = [(lines[:repeated], True), (lines[repeated:], False)]
        return [LineBatch("file", self.brokers[0], part, again, lost) for part, again in batches if part]

    @property
    def position(self) -> FilePosition | None:
        """The position after the last complete line."""
        return self._file.position

    @property
    def lag(self) -> int:
        """Bytes not read yet."""
        return self._file.unread_bytes

    @property
    def counters(self) -> SourceCounters:
        """Counters of the file."""
        file = self._file
        return SourceCounters(self._lines, file.rotations, file.truncations, file.oversized_lines, file.lost_files)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _repeated(self, lines: list[bytes], begin: FilePosition | None) -> int:
        """Return the number of these lines whose events a crashed tap may have sent."""
        limit = self._sent_up_to
        if limit is None:
            return 0
        now = self._file.position
        if now is None or begin is None or not now.inode == begin.inode == limit.inode:
            # The lines are from an older file than `sent_up_to`, or the file of `sent_up_to` was compressed. After a
            # compression, all lines count as repeated until `read` reaches the end of the log.
            return len(lines)
        at = begin.offset
        for index, line in enumerate(lines):
            if at >= limit.offset:
                self._sent_up_to = None
                return index
            at += len(line) + 1
        return len(lines)

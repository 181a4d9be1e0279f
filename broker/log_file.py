"""Follows one growing log file: whole lines only, across rotation, from a saved position."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from broker.errors import TapError

_CHUNK_BYTES = 1024 * 1024
# A line holds one request; the largest ones name some ten thousand partitions. Beyond this it is not a log.
_MAX_LINE_BYTES = 64 * 1024 * 1024


class Position(msgspec.Struct, frozen=True):
    """A place in a file that may since have been rotated away.

    Attributes:
        inode: of the file; another one under the same name is a new file.
        offset: in bytes.
    """

    inode: int
    offset: int


def load_position(path: Path) -> Position | None:
    """The saved position; None if there is none yet.

    Raises:
        TapError: the file is not one that `save_position` wrote.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Position)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        msg = f"position file {path} cannot be read ({error}): delete it to begin anew, or name another"
        raise TapError(msg) from error


def save_position(path: Path, position: Position) -> None:
    """Write the position so that a crash leaves either the old or the new one."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(msgspec.json.encode(position))
    new.replace(path)


class LogFile:
    """Reads a file that somebody else appends to."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened yet; the file need not exist.

        Args:
            path: the file under its current name.
        """
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._offset = 0
        self.rotations = 0
        self.truncations = 0
        self.oversized_lines = 0

    def open_at(self, position: Position | None, *, from_end: bool = False, context_bytes: int = 0) -> int:
        """Open the file, if it is there.

        Args:
            position: go on from here, if it is still the same file.
            from_end: without a position, begin at the end instead of at the beginning.
            context_bytes: begin so many bytes earlier than the position or the end.

        Returns:
            The offset from which on lines are new; those before are context.
        """
        if not self._open(self._rotated(position)):
            return 0
        stat = self._stat()
        new_from = stat.st_size if from_end else 0
        if position is not None:
            # Another inode: rotated while we were away, and the old one is gone. All of the new file is new to us.
            new_from = position.offset if position.inode == stat.st_ino and position.offset <= stat.st_size else 0
        self._seek(max(0, new_from - context_bytes))
        if self._offset > 0:
            # We are in the midst of a line, most likely.
            self._skip_line()
        return new_from

    @property
    def unread_bytes(self) -> int:
        """What was written to the open file, but not handed out yet."""
        return 0 if self._file is None else max(0, self._stat().st_size - self._offset)

    @property
    def position(self) -> Position | None:
        """Behind the last whole line that `read` handed out; None while there is no file."""
        return None if self._file is None else Position(self._stat().st_ino, self._offset)

    def read(self) -> list[bytes]:
        """The next whole lines without their newline; empty at the end of what was written so far."""
        if self._file is None and not self._open():
            return []
        file = self._file
        if file is None:
            return []
        chunk = file.read(_CHUNK_BYTES)
        if not chunk:
            return self._at_end()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._offset += sum(map(len, lines)) + len(lines)
        if len(self._rest) > _MAX_LINE_BYTES:
            self.oversized_lines += 1
            self._offset += len(self._rest)
            self._rest = b""
        return lines

    def close(self) -> None:
        """Close the file; `read` would open it anew, at its beginning."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _at_end(self) -> list[bytes]:
        try:
            now = self._path.stat()
        except FileNotFoundError:
            # Between the renaming and the first line of the new file.
            return []
        here = self._stat()
        if now.st_ino != here.st_ino:
            # Renamed, and nothing more was in it when we looked: but it was written to until just before the renaming.
            if here.st_size > self._offset + len(self._rest):
                return []
            self.rotations += 1
            self.close()
            self._open()
        elif now.st_size < self._offset:
            self.truncations += 1
            self._seek(0)
        return []

    def _rotated(self, position: Position | None) -> Path:
        """The file of the position, if it was renamed to `<name>.<something>` since; else the current one."""
        if position is not None:
            for path in self._path.parent.glob(f"{self._path.name}.*"):
                if path.stat().st_ino == position.inode:
                    return path
        return self._path

    def _open(self, path: Path | None = None) -> bool:
        try:
            self._file = (path or self._path).open("rb")
        except FileNotFoundError:
            return False
        except OSError as error:
            msg = f"log file {self._path} cannot be read ({error.strerror}): check the path and its permissions"
            raise TapError(msg) from error
        self._rest, self._offset = b"", 0
        return True

    def _seek(self, offset: int) -> None:
        if self._file is not None:
            self._file.seek(offset)
            self._rest, self._offset = b"", offset

    def _skip_line(self) -> None:
        if self._file is None:
            return
        self._file.seek(self._offset - 1)
        # From one byte before, so that a line that begins just here is not skipped.
        self._seek(self._offset - 1 + len(self._file.readline()))

    def _stat(self) -> os.stat_result:
        if self._file is None:
            msg = f"log file {self._path} is not open"
            raise TapError(msg)
        return os.fstat(self._file.fileno())

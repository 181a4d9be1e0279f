"""Tails a file line by line, across rotations, from a saved position."""

import os
import zlib
from pathlib import Path
from typing import BinaryIO

from broker.errors import TapError
from broker.log.rotated_files import HEAD_BYTES, Head, beginning_of, open_log, rotated_files
from wire.broker_lines import MAX_LINE_BYTES
from wire.heartbeat import FilePosition

_CHUNK_BYTES = 1024 * 1024
_TAIL_BYTES = 4 * 1024 * 1024
_HEAD_BYTES = 1024


class LineCutter:
    """A buffer of an incomplete line, or of the beginning of an oversized line."""

    def __init__(self) -> None:
        self.oversized_lines = 0
        self.unfinished_bytes = 0
        self._pieces: list[bytes] = []
        self._too_long = False

    def cut(self, chunk: bytes) -> list[bytes]:
        """Return the lines that the chunk completes, without line ends. An oversized line is cut to its beginning."""
        first, *others = chunk.split(b"\n")
        if not others:
            self._keep(chunk)
            return []
        *lines, rest = others
        line = self._pieces[0] if self._too_long else b"".join((*self._pieces, first))
        self._pieces, self._too_long, self.unfinished_bytes = [], False, 0
        self._keep(rest)
        return [line, *lines]

    def _keep(self, chunk: bytes) -> None:
        self.unfinished_bytes += len(chunk)
        if not self._too_long:
            self._pieces.append(chunk)
        if self.unfinished_bytes > MAX_LINE_BYTES and not self._too_long:
            self._too_long = True
            self.oversized_lines += 1
            self._pieces = [b"".join(self._pieces)[:_HEAD_BYTES]]


class LogFile:
    """A file that other programs append to, rename, compress and truncate."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._compressed = False
        self._inode = 0
        self._head = Head(0, "")
        self._cutter = LineCutter()
        self._offset = 0
        self._oversized_before = 0
        self.rotations = 0
        self.truncations = 0
        self.lost_files = 0

    def open_at(self, position: FilePosition | None, *, from_end: bool = False) -> None:
        """Open the file at `position`, which may be in a rotated file. If that file is gone, open the next newer file.

        Without a position, start at the beginning or, with `from_end`, at the end.
        """
        if position is None:
            if self._open(self._path) and from_end:
                self._seek_end()
            return
        found = self._find(Head(position.head_bytes, position.head), position.inode, position.offset)
        if found is not None and self._open(found):
            self._seek(position.offset)
            return
        # The file was deleted while the tap was down, so all remaining lines are new. At offset 0, the file may have
        # been empty, and can't be identified. Then include files with the same time of the last write, because one of
        # them may be this file after compression.
        self.lost_files += 1
        read_ns = position.written_ns - (position.offset == 0)
        later = (path for path in rotated_files(self._path) if _is_later(path, read_ns))
        for path in (*later, self._path):
            if self._open(path):
                return

    @property
    def oversized_lines(self) -> int:
        """Lines that were cut because they exceed the maximum length."""
        return self._oversized_before + self._cutter.oversized_lines

    @property
    def unread_bytes(self) -> int:
        """Estimated bytes that were written but not returned yet."""
        live = _status(self._path)
        if live is None:
            return 0
        if self._file is None or live.st_ino == self._inode:
            return max(0, live.st_size - self._offset)
        here = 0 if self._compressed else max(0, os.fstat(self._file.fileno()).st_size - self._offset)
        return here + live.st_size

    @property
    def position(self) -> FilePosition | None:
        """The position after the last line returned by `read`, or None."""
        if self._file is None:
            return None
        written_ns = os.fstat(self._file.fileno()).st_mtime_ns
        return FilePosition(self._inode, self._offset, self._head.length, self._head.digest, written_ns)

    def read(self) -> list[bytes]:
        """Return the next complete lines without line ends; none at the end of the file."""
        file = self._file
        if file is None:
            # Return no lines yet, so that a position exists before the first line.
            self._open(self._path)
            return []
        if self._was_cut(file):
            return []
        while chunk := self._chunk(file):
            before = self._cutter.unfinished_bytes
            lines = self._cutter.cut(chunk)
            if lines:
                self._offset += before + len(chunk) - self._cutter.unfinished_bytes
                return lines
        self._at_end(file)
        return []

    def close(self) -> None:
        """Close the file. Another `read` would reopen it at the beginning."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _chunk(self, file: BinaryIO) -> bytes:
        try:
            return file.read(_CHUNK_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            msg = f"can't read file {self._path} or a rotated part of it ({error}): repair or remove the file"
            raise TapError(msg) from error

    def _begin_at(self, offset: int) -> None:
        self._oversized_before += self._cutter.oversized_lines
        self._cutter, self._offset = LineCutter(), offset

    def _was_cut(self, file: BinaryIO) -> bool:
        """Whether the file was truncated (copytruncate), even if it has grown again. If so, resume in the copy."""
        if self._compressed:
            return False
        beginning = os.pread(file.fileno(), HEAD_BYTES, 0)
        if self._head.fits(beginning) and os.fstat(file.fileno()).st_size >= self._offset:
            if self._head.length < len(beginning):
                self._head = Head.of(beginning)
            return False
        self.truncations += 1
        offset = self._offset
        copy = self._find(self._head, None, offset) if self._head.length else None
        if copy is not None and self._open(copy):
            self._seek(offset)
        else:
            self._head = Head.of(beginning)
            self._seek(0)
        return True

    def _at_end(self, file: BinaryIO) -> None:
        live = _status(self._path)
        if live is None:
            # The file was renamed, and the new file does not exist yet.
            return
        if live.st_ino == self._inode and not self._compressed:
            return
        # The file was renamed. Read what was written between our last read and the rename.
        if not self._compressed and os.fstat(file.fileno()).st_size > self._offset + self._cutter.unfinished_bytes:
            return
        self.rotations += self._open(self._following(file))

    def _following(self, file: BinaryIO) -> Path:
        files = rotated_files(self._path)
        inodes = [_inode(path) for path in files]
        if self._inode in inodes:
            later = files[inodes.index(self._inode) + 1 :]
        else:
            # The file was compressed or deleted.
            same = [
                index for index, path in enumerate(files) if self._head.length and self._head.fits(beginning_of(path))
            ]
            if not same:
                # Later files may also be gone.
                self.lost_files += 1
            last_write_ns = os.fstat(file.fileno()).st_mtime_ns
            later = files[same[-1] + 1 :] if same else [each for each in files if _is_later(each, last_write_ns)]
        return later[0] if later else self._path

    def _find(self, head: Head, inode: int | None, offset: int) -> Path | None:
        files = [self._path, *rotated_files(self._path)]
        same = [path for path in files if path.exists() and head.fits(beginning_of(path))]
        for path in same:
            if _inode(path) == inode and _size(path) >= offset:
                return path
        if head.length == 0:
            return None
        return next((path for path in same if path.suffix == ".gz" or _size(path) >= offset), None)

    def _open(self, path: Path) -> bool:
        try:
            file = open_log(path)
        except FileNotFoundError:
            return False
        self.close()
        self._file = file
        self._compressed = path.suffix == ".gz"
        self._inode = os.fstat(file.fileno()).st_ino
        beginning = beginning_of(path) if self._compressed else os.pread(file.fileno(), HEAD_BYTES, 0)
        self._head = Head.of(beginning)
        self._begin_at(0)
        return True

    def _seek(self, offset: int) -> None:
        if self._file is not None:
            self._file.seek(offset)
            self._begin_at(offset)

    def _seek_end(self) -> None:
        """Seek to the end of the last complete line."""
        if self._file is None:
            return
        size = os.fstat(self._file.fileno()).st_size
        tail_from = max(0, size - _TAIL_BYTES)
        tail = os.pread(self._file.fileno(), size - tail_from, tail_from)
        self._seek(tail_from + tail.rfind(b"\n") + 1)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _inode(path: Path) -> int:
    status = _status(path)
    return status.st_ino if status else 0


def _size(path: Path) -> int:
    status = _status(path)
    return status.st_size if status else 0


def _is_later(path: Path, than_ns: int) -> bool:
    status = _status(path)
    return status is not None and status.st_mtime_ns > than_ns

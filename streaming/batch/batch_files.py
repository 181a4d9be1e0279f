"""Files that the driver writes to the checkpoint folder for the tasks of a batch.

A mounted folder may list new files late. So readers wait for a file by its name, instead of listing the folder.
"""

import hashlib
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from streaming.checkpoint.own_files import await_file, write_atomically
from streaming.checkpoint.spark_files import START_ANEW, in_use
from streaming.errors import CheckpointError

KEPT_BATCHES = 3
"""Number of batches whose files are kept. Spark repeats only the newest batch, which needs its predecessor's files."""

_Content = TypeVar("_Content")


@dataclass(frozen=True)
class BatchFiles(Generic[_Content]):
    """One small file per batch.

    Attributes:
        name: Name of the files' folder in the checkpoint.
        remedy: Advice in the error if a file can't be read.
    """

    checkpoint: str
    name: str
    content: type[_Content]
    remedy: str = START_ANEW

    def write(self, batch_id: int, content: _Content) -> None:
        """Write the file of a batch, and delete an old batch's file."""
        write_atomically(self._path(batch_id), msgspec.msgpack.encode(content))
        self._path(batch_id - KEPT_BATCHES).unlink(missing_ok=True)

    def read(self, batch_id: int) -> _Content:
        """Return the content of a batch's file.

        Raises:
            CheckpointError: If the file does not appear or can't be read, or another stream has deleted it.
        """
        try:
            content: _Content = _read(self._path(batch_id), self.content, self.remedy)
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError) and self._was_deleted(batch_id):
                raise in_use(self.checkpoint) from error
            raise
        return content

    def _was_deleted(self, batch_id: int) -> bool:
        """Return whether another stream is so far ahead that it has deleted a batch's file."""
        files = Path(self.checkpoint, self.name).glob("*.msgpack")
        return any(int(file.stem) >= batch_id + KEPT_BATCHES for file in files)

    def glance(self, batch_id: int) -> _Content | None:
        """Return the content of a batch's file without waiting. Return None if the file can't be read now."""
        try:
            return msgspec.msgpack.decode(self._path(batch_id).read_bytes(), type=self.content)
        except (OSError, ValueError):
            return None

    def _path(self, batch_id: int) -> Path:
        return Path(self.checkpoint, self.name, f"{batch_id}.msgpack")


@dataclass(frozen=True)
class SharedFiles(Generic[_Content]):
    """Files that several batches share. A file's name is a digest of its content."""

    checkpoint: str
    name: str
    content: type[_Content]
    remedy: str = START_ANEW

    def write(self, content: _Content, before: str = "") -> str:
        """Write content to a file and return its name. If the file is new, delete all other files except `before`."""
        encoded = msgspec.msgpack.encode(content)
        name = _digest(encoded)
        if not _holds(self._path(name), encoded):
            write_atomically(self._path(name), encoded)
            self._delete_others({name, before})
        return name

    def read(self, name: str) -> _Content:
        """Return the content of a file.

        Raises:
            CheckpointError: If the file does not appear, or can't be read.
        """
        kind: Any = self.content
        content: _Content = _cached(self._path(name), kind, self.remedy)
        return content

    def _delete_others(self, names: Collection[str]) -> None:
        for file in Path(self.checkpoint, self.name).glob("*.msgpack"):
            if file.stem not in names:
                file.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return Path(self.checkpoint, self.name, f"{name}.msgpack")


@lru_cache(maxsize=4)
def _cached(file: Path, kind: Hashable, remedy: str) -> Any:
    return _read(file, kind, remedy, digest=file.stem)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.read_bytes() == content
    except OSError:
        return False


def _read(file: Path, kind: Any, remedy: str, digest: str | None = None) -> Any:
    def decode(content: bytes) -> Any:
        if digest not in (None, _digest(content)):
            msg = "its content does not match the digest in its name"
            raise ValueError(msg)
        return msgspec.msgpack.decode(content, type=kind)

    try:
        return await_file(file, decode)
    except (OSError, ValueError) as error:
        msg = f"{file} can't be read ({error}): {remedy}"
        raise CheckpointError(msg) from error

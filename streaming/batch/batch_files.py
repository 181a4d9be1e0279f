"""Small files that the driver writes to the checkpoint folder, one per batch with a change, for the tasks to read.

Writes are atomic. Files that no batch needs any more are deleted.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from streaming.checkpoint.own_files import write_atomically
from streaming.checkpoint.spark_files import START_ANEW
from streaming.errors import CheckpointError

_KEPT = 2

_Content = TypeVar("_Content")


@dataclass(frozen=True)
class BatchFiles(Generic[_Content]):
    """The files with one type of content.

    Attributes:
        name: Name of the files' folder in it.
        content: Type of what a file holds.
        is_made_again: Whether the next batch writes the content again if a file is deleted.
    """

    checkpoint: str
    name: str
    content: type[_Content]
    is_made_again: bool = True

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return Path(self.checkpoint, self.name)

    def newest(self, batch_id: int) -> int | None:
        """Return the newest batch up to this one that has a file, None if none has."""
        return max((each for each in self._numbers() if each <= batch_id), default=None)

    def read(self, batch_id: int) -> _Content | None:
        """Return the content of the newest file up to a batch; None if there is none.

        Raises:
            CheckpointError: If the file can't be read.
        """
        number = self.newest(batch_id)
        if number is None:
            return None
        file = self._path(number)
        try:
            # A repeated batch rewrites its file: the modification time is part of the cache key.
            kind: Any = self.content
            content: _Content = _decoded(file, file.stat().st_mtime_ns, kind)
        except (OSError, msgspec.MsgspecError) as error:
            remedy = "delete it, and start the stream again" if self.is_made_again else START_ANEW
            msg = f"{file} can't be read ({error}): {remedy}"
            raise CheckpointError(msg) from error
        return content

    def write(self, batch_id: int, content: _Content) -> None:
        """Write the file of a batch."""
        write_atomically(self._path(batch_id), msgspec.msgpack.encode(content))
        for number in sorted(each for each in self._numbers() if each <= batch_id)[:-_KEPT]:
            self._path(number).unlink(missing_ok=True)

    def _path(self, batch_id: int) -> Path:
        return self.folder / f"{batch_id}.msgpack"

    def _numbers(self) -> list[int]:
        try:
            return [int(file.stem) for file in self.folder.iterdir() if file.suffix == ".msgpack"]
        except FileNotFoundError:
            return []


@lru_cache(maxsize=4)
def _decoded(file: Path, _written_ns: int, kind: Hashable) -> Any:
    return msgspec.msgpack.decode(file.read_bytes(), type=kind)

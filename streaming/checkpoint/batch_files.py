"""Small files that the driver writes to the checkpoint folder, one per batch with a change, for the tasks to read.

Writes are atomic. Files that no batch needs any more are deleted.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from streaming.checkpoint.spark_files import START_ANEW
from streaming.errors import CheckpointError

_KEPT = 2

_Content = TypeVar("_Content")


@dataclass(frozen=True)
class BatchFiles:
    """The files of one kind.

    Attributes:
        checkpoint: Its folder.
        kind: Name of the folder in it.
        is_made_again: Whether the next batch makes again what a file held.
    """

    checkpoint: str
    kind: str
    is_made_again: bool = True

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return Path(self.checkpoint, self.kind)

    def path(self, batch_id: int) -> Path:
        """Return the file of a batch."""
        return self.folder / f"{batch_id}.msgpack"

    def newest(self, batch_id: int) -> int | None:
        """Return the newest batch up to this one that has a file, None if none has."""
        return max((each for each in self._numbers() if each <= batch_id), default=None)

    def read(self, batch_id: int, kind: type[_Content]) -> _Content:
        """Return what the file of a batch holds.

        Raises:
            CheckpointError: If it can't be read.
        """
        file = self.path(batch_id)
        try:
            # A repeated batch rewrites its file: the modification time is part of the cache key.
            key: Any = kind
            content: _Content = _decoded(file, file.stat().st_mtime_ns, key)
        except (OSError, msgspec.MsgspecError) as error:
            remedy = "delete it, and start the stream again" if self.is_made_again else START_ANEW
            msg = f"{file} can't be read ({error}): {remedy}"
            raise CheckpointError(msg) from error
        return content

    def write(self, batch_id: int, content: object) -> None:
        """Write the file of a batch."""
        file = self.path(batch_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".tmp")
        temporary.write_bytes(msgspec.msgpack.encode(content))
        temporary.replace(file)
        for number in sorted(each for each in self._numbers() if each <= batch_id)[:-_KEPT]:
            self.path(number).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        try:
            return [int(file.stem) for file in self.folder.iterdir() if file.suffix == ".msgpack"]
        except FileNotFoundError:
            return []


@lru_cache(maxsize=4)
def _decoded(file: Path, _written_ns: int, kind: Hashable) -> Any:
    return msgspec.msgpack.decode(file.read_bytes(), type=kind)

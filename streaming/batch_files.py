"""Small files of the driver in the checkpoint folder, one per batch that changed them, for the tasks to read.

A file is written whole or not at all. Files that no batch needs any more are dropped.
"""

from dataclasses import dataclass
from pathlib import Path

_KEPT = 2


@dataclass(frozen=True)
class BatchFiles:
    """The files of one kind.

    Attributes:
        checkpoint: Its folder.
        kind: Name of the folder in it.
    """

    checkpoint: str
    kind: str

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return Path(self.checkpoint, self.kind)

    def path(self, batch_id: int) -> Path:
        """Return the file of a batch."""
        return self.folder / f"{batch_id}.msgpack"

    def newest(self, batch_id: int) -> int | None:
        """Return the newest batch up to this one that has a file, None if none has."""
        return max((each for each in self._numbers() if each <= batch_id), default=None)

    def version(self, batch_id: int) -> int:
        """Return what tells a file from one written later under its name: a repeated batch writes its own anew."""
        return self.path(batch_id).stat().st_mtime_ns

    def write(self, batch_id: int, content: bytes) -> None:
        """Write the file of a batch."""
        file = self.path(batch_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".tmp")
        temporary.write_bytes(content)
        temporary.replace(file)
        for number in sorted(each for each in self._numbers() if each <= batch_id)[:-_KEPT]:
            self.path(number).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        try:
            return [int(file.stem) for file in self.folder.iterdir() if file.suffix == ".msgpack"]
        except FileNotFoundError:
            return []

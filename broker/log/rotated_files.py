"""Finds the rotated files of a log, which were renamed, compressed or copied."""

import glob
import gzip
import hashlib
import re
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from broker.errors import TapError

HEAD_BYTES = 1024
"""Number of bytes that identify a file: its beginning has times in ms, and the run of the class."""

# `.1`, `.2.gz`, `-20261121`, `.2026-11-21-14.gz`, but no position file, temporary file or other log.
_ROTATED_SUFFIX = re.compile(r"[.-]\d[0-9T_:.-]*?(\.gz)?")


@dataclass(frozen=True)
class Head:
    """Fingerprint of a file's beginning."""

    length: int
    digest: str

    @classmethod
    def of(cls, beginning: bytes) -> "Head":
        """Make the fingerprint of the first bytes."""
        cut = beginning[:HEAD_BYTES]
        return cls(len(cut), hashlib.sha256(cut).hexdigest() if cut else "")

    def fits(self, beginning: bytes) -> bool:
        """Whether a file with these first bytes is the same file, which may have grown."""
        return len(beginning) >= self.length and Head.of(beginning[: self.length]) == self


def open_log(path: Path) -> BinaryIO:
    """Open a file, compressed or not."""
    try:
        # Opening a pipe blocks until something writes to it.
        if not stat.S_ISREG(path.stat().st_mode):
            msg = f"can't read file {path} (a folder, pipe or device): give a regular file"
            raise TapError(msg)
        return cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        msg = f"can't read file {path} ({error.strerror}): check the path and its permissions"
        raise TapError(msg) from error


def beginning_of(path: Path) -> bytes:
    """Return the first bytes of a file, compressed or not; none if the file is gone or damaged."""
    try:
        with open_log(path) as file:
            return file.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""


def rotated_files(path: Path) -> list[Path]:
    """Return the rotated files of a log, oldest first. A file that is being compressed counts once."""
    found = {
        each.name: each
        for each in path.parent.glob(f"{glob.escape(path.name)}*")
        if _ROTATED_SUFFIX.fullmatch(each.name[len(path.name) :])
    }
    whole = [each for name, each in found.items() if not (name.endswith(".gz") and name[:-3] in found)]
    aged = []
    for each in whole:
        try:
            about = each.stat()
            if stat.S_ISREG(about.st_mode):
                aged.append((about.st_mtime_ns, each.name, each))
        except FileNotFoundError:
            # The file was renamed or deleted just now.
            continue
    return [each for _, _, each in sorted(aged)]

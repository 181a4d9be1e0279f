"""Finds the files that a log was rotated into: renamed, compressed, or copied before the log was cut."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from broker.errors import TapError

HEAD_BYTES = 1024
"""So much of a file's beginning tells it from all others: times in ms, threads, connections."""

# `.1`, `.2.gz`, `-20261121`, `.2026-11-21-14.gz`: never a position file, a half-written one, or another log.
_ROTATED_SUFFIX = re.compile(r"[.-]\d[0-9T_:.-]*?(\.gz)?")


@dataclass(frozen=True)
class Head:
    """The beginning of a file.

    Attributes:
        length: in bytes, at most `HEAD_BYTES`.
        digest: hash of them.
    """

    length: int
    digest: str

    @classmethod
    def of(cls, beginning: bytes) -> Head:
        """Of a file that begins with these bytes."""
        cut = beginning[:HEAD_BYTES]
        return cls(len(cut), hashlib.sha256(cut).hexdigest() if cut else "")

    def fits(self, beginning: bytes) -> bool:
        """Whether a file that begins with these bytes is the same, perhaps longer by now."""
        return len(beginning) >= self.length and Head.of(beginning[: self.length]) == self


def open_log(path: Path) -> BinaryIO:
    """Open a log file, compressed or not.

    Raises:
        FileNotFoundError: it is not there (any more).
        TapError: it cannot be opened.
    """
    try:
        return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        msg = f"log file {path} cannot be read ({error.strerror}): check the path and its permissions"
        raise TapError(msg) from error


def beginning_of(path: Path) -> bytes:
    """The first bytes of a log file, compressed or not; empty if it is gone or damaged."""
    try:
        with open_log(path) as file:
            return file.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""


def rotated_files(path: Path) -> list[Path]:
    """What a log was rotated into, the oldest first; a file that is just being compressed only once, uncompressed."""
    found = {
        each.name: each
        for each in path.parent.glob(f"{_glob_quoted(path.name)}*")
        if _ROTATED_SUFFIX.fullmatch(each.name[len(path.name) :])
    }
    whole = [each for name, each in found.items() if not (name.endswith(".gz") and name[:-3] in found)]
    aged = []
    for each in whole:
        try:
            aged.append((each.stat().st_mtime_ns, each.name, each))
        except FileNotFoundError:
            # Renamed on, or deleted, at this moment.
            continue
    return [each for _, _, each in sorted(aged)]


def _glob_quoted(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)

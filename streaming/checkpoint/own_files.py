"""Reads and writes our own files in a checkpoint folder."""

from pathlib import Path
from typing import TypeVar

import msgspec

from streaming.errors import CheckpointDamagedError, CheckpointError

_Content = TypeVar("_Content")


def read_json(file: Path, kind: type[_Content], remedy: str) -> _Content | None:
    """Return the content of a file, None if there is no file.

    Args:
        file: The file.
        kind: Type of its content.
        remedy: What to do if it is damaged.

    Raises:
        CheckpointDamagedError: If it is damaged.
        CheckpointError: If it can't be read.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unusable(file.parent, error) from error
    except (ValueError, msgspec.MsgspecError) as error:
        msg = f"{file} can't be read ({error}): {remedy}"
        raise CheckpointDamagedError(msg) from error


def write_json(file: Path, content: object) -> None:
    """Write a file atomically.

    Raises:
        CheckpointError: If it can't be written.
    """
    try:
        write_atomically(file, msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    except OSError as error:
        raise unusable(file.parent, error) from error


def write_atomically(file: Path, content: bytes) -> None:
    """Write a file so that a reader finds all of its content or none; create its folder if it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(file)


def unusable(folder: Path, error: OSError) -> CheckpointError:
    """Return the error for a checkpoint folder that can't be read or written."""
    return CheckpointError(
        f"checkpoint folder {folder} can't be used ({error}): give a folder that this user can write to"
    )

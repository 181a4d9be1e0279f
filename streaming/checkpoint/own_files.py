"""Reads and writes this project's files in a checkpoint folder."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from streaming.errors import CheckpointDamagedError, CheckpointError

APPEARS_WITHIN_S = 60.0
"""Maximum time before a mount such as `/Volumes` shows a file that another machine wrote."""
WHOLE_WITHIN_S = 5.0
"""Maximum time during which a mount shows only a part of a new file. Some mounts rename a file by copying."""
_PAUSE_S = 0.05

_Content = TypeVar("_Content")


def await_file(file: Path, decode: Callable[[bytes], _Content]) -> _Content:
    """Wait until this machine sees a whole file, and return its decoded content.

    Raises:
        FileNotFoundError: If the file does not appear within `APPEARS_WITHIN_S`.
        OSError: If the file can't be read.
        ValueError: If the file can't be decoded `WHOLE_WITHIN_S` after it appeared.
    """
    missing_until_s = time.monotonic() + APPEARS_WITHIN_S
    partial_until_s = float("inf")
    while True:
        try:
            return decode(file.read_bytes())
        except FileNotFoundError:
            if time.monotonic() > missing_until_s:
                raise
        except ValueError:
            partial_until_s = min(partial_until_s, time.monotonic() + WHOLE_WITHIN_S)
            if time.monotonic() >= partial_until_s:
                raise
        time.sleep(_PAUSE_S)


def read_json(file: Path, kind: type[_Content], remedy: str) -> _Content | None:
    """Return the content of a file, or None if there is no file.

    Raises:
        CheckpointDamagedError: If the file is damaged. The message contains `remedy`.
        CheckpointError: If the file can't be read.
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
        CheckpointError: If the file can't be written.
    """
    try:
        write_atomically(file, msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    except OSError as error:
        raise unusable(file.parent, error) from error


def write_atomically(file: Path, content: bytes) -> None:
    """Write a file so that readers see all of the content or none. Create the folder if it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(file)


def unusable(folder: Path, error: OSError) -> CheckpointError:
    """Return the error for a checkpoint folder that can't be read or written."""
    return CheckpointError(
        f"checkpoint folder {folder} can't be used ({error}): give a folder that this user can write to"
    )

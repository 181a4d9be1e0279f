"""The tap's position file, from which the tap resumes."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from typing_extensions import Buffer

from broker.errors import TapError
from broker.log.metadata_blocks import MetadataPosition
from broker.tap.broker_watch import SavedWatch
from wire.heartbeat import Position


class Checkpoint(msgspec.Struct, frozen=True):
    """The position up to which Kafka has acknowledged all records.

    A crashed tap may have sent records up to `sent_up_to`.
    """

    position: Position
    sent_up_to: Position | None = None
    watches: dict[int, SavedWatch] = {}
    blocks: MetadataPosition | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Checkpoint).decode


def load_checkpoint(path: Path) -> Checkpoint | None:
    """Load the checkpoint; None if the file is missing, or is empty after a crash of the host."""
    try:
        saved = path.read_bytes()
        return _decode(saved) if saved else None
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        msg = f"can't read position file {path} ({error}): delete it to start over, or use another"
        raise TapError(msg) from error


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Save the checkpoint atomically."""
    try:
        write_atomically(path, [_encode(checkpoint)])
    except OSError as error:
        msg = f"can't write position file {path} ({error.strerror}): use one in a writable folder with free space"
        raise TapError(msg) from error


def write_atomically(path: Path, parts: Iterable[Buffer]) -> None:
    """Replace a file atomically, even if the host crashes."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)

"""What a tap keeps in its position file: where it was, and what it must know to go on from there."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from broker.attribution.learning import LearningTime
from broker.errors import TapError
from broker.log.reorder_buffer import ReorderState
from wire.heartbeat import Position
from wire.records import ProduceEvent


class Checkpoint(msgspec.Struct, frozen=True):
    """All of a position file.

    Attributes:
        position: everything before it was taken by Kafka, or is in `waiting`.
        sent_up_to: nothing behind it was sent; a crashed run may have sent what lies between.
        kept_lines: by stream, lines before the position that are still needed to understand those behind it.
        waiting: batches before the position that wait for their binding.
        learning: by stream, since when its broker has been watched.
        order: by stream, which line is due.
    """

    position: Position
    sent_up_to: Position | None = None
    kept_lines: dict[str, list[bytes]] = {}
    waiting: list[ProduceEvent] = []
    learning: dict[str, LearningTime] = {}
    order: dict[str, ReorderState] = {}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Checkpoint).decode


def load_checkpoint(path: Path) -> Checkpoint | None:
    """What was saved; None if nothing was yet, or if a machine that went down left an empty file.

    Raises:
        TapError: the file is not one that `save_checkpoint` wrote.
    """
    try:
        saved = path.read_bytes()
        return _decode(saved) if saved else None
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        msg = f"position file {path} cannot be read ({error}): delete it to begin anew, or name another"
        raise TapError(msg) from error


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write it so that a crash, also of the machine, leaves either the old or the new one.

    Raises:
        TapError: it cannot be written.
    """
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as file:
            file.write(_encode(checkpoint))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        msg = (
            f"position file {path} cannot be written ({error.strerror}): name one in a folder with space and the right"
        )
        raise TapError(msg) from error

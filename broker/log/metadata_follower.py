"""Follows the metadata log of a running node: reads new blocks of producer ids."""

import struct
from pathlib import Path
from typing import Annotated

import msgspec

from broker.log.metadata_blocks import BlockReader, segments_of, start_of, unreadable
from lifecycle.producer_id_blocks import Block

STEP_BYTES = 4 * 1024 * 1024
"""Maximum to read at once; a log may have hundreds of megabytes at first."""

_LENGTH = struct.Struct(">i")
_LENGTH_AT, _LENGTH_END = 8, 12
_MIN_BYTES, _MAX_BYTES = 61, 256 * 1024 * 1024
_MAY_BE_BLOCK = bytes([1, 15])
"""Frame version and type of a `ProducerIdsRecord`; batches without these bytes are skipped."""


class MetadataPosition(msgspec.Struct, frozen=True):
    """The position up to which a metadata log was read: the next byte in the segment of a first offset.

    `next_producer_id` is the first after the blocks read so far; None if unknown.
    """

    segment: Annotated[int, msgspec.Meta(ge=0)] = 0
    byte: Annotated[int, msgspec.Meta(ge=0)] = 0
    next_producer_id: int | None = None


class MetadataFollower:
    """Reads a metadata log from a position."""

    def __init__(self, position: MetadataPosition | None = None) -> None:
        self.position = position
        """After the last batch read; None before the first."""
        self.is_behind = False

    def read(self, folder: Path) -> list[Block]:
        """Return the blocks of the next `STEP_BYTES`."""
        segments = segments_of(folder)
        try:
            segment, at = self._current(segments)
            reader = BlockReader(at.next_producer_id)
            with segment.open("rb") as file:
                file.seek(at.byte)
                chunk = file.read(STEP_BYTES)
                size = _frame_bytes(chunk, 0)
                if size > len(chunk):
                    chunk += file.read(size - len(chunk))
            done = _read_frames(reader, chunk)
        except (OSError, ValueError) as error:
            # A segment may have been truncated and extended meanwhile.
            self.position = None if self.position is None else MetadataPosition(self.position.segment)
            raise unreadable(folder, error) from error
        # This segment may have more, or it is complete because the next one exists.
        self.is_behind = done > 0 or segment != segments[-1]
        self.position = MetadataPosition(at.segment, at.byte + done, reader.next_producer_id)
        if not done and segment != segments[-1]:
            following = segments[segments.index(segment) + 1]
            self.position = MetadataPosition(int(following.stem), 0, reader.next_producer_id)
        return reader.blocks

    def _current(self, segments: list[Path]) -> tuple[Path, MetadataPosition]:
        """Return the segment to read on, and from where."""
        at = self.position
        for segment in segments:
            if at is not None and int(segment.stem) == at.segment:
                # Read a segment that lost its end again: blocks count once.
                return segment, at if at.byte <= segment.stat().st_size else _beginning_of(segment)
        later = [each for each in segments if at is None or int(each.stem) > at.segment] or segments
        return later[0], _beginning_of(later[0])


def _beginning_of(segment: Path) -> MetadataPosition:
    return MetadataPosition(int(segment.stem), 0, start_of(segment))


def _read_frames(reader: BlockReader, chunk: bytes) -> int:
    """Read all complete batches; return their bytes."""
    at = 0
    while (size := _frame_bytes(chunk, at)) and at + size <= len(chunk):
        frame = chunk[at : at + size]
        if _MAY_BE_BLOCK in frame:
            reader.read(frame)
        at += size
    return at


def _frame_bytes(chunk: bytes, at: int) -> int:
    """Return the length of the batch at an offset; 0 if it is incomplete."""
    if len(chunk) < at + _LENGTH_END:
        return 0
    length = int(_LENGTH.unpack_from(chunk, at + _LENGTH_AT)[0])
    if length == 0:
        # The space is allocated but not written yet.
        return 0
    if not _MIN_BYTES <= length + _LENGTH_END <= _MAX_BYTES:
        msg = f"no batch of {length} bytes"
        raise ValueError(msg)
    return length + _LENGTH_END

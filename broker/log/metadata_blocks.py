"""Reads blocks of producer ids from a broker's or controller's metadata log, `__cluster_metadata-0`, or from a copy.

Each block has a `ProducerIdsRecord`, which contains the start of the *next* block (KIP-730).
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from kafka.errors import KafkaError
from kafka.record.memory_records import MemoryRecords

from broker.errors import MetadataLogError
from lifecycle.producer_id_blocks import BLOCK_LENGTH, Block

FOLDER = "__cluster_metadata-0"

_PRODUCER_IDS_RECORD = 15
_FRAME_VERSION = 1
_FIELDS = struct.Struct(">iqq")
STEP_BYTES = 4 * 1024 * 1024
"""Number of bytes to read at once, unless a batch is larger. A log may have hundreds of megabytes."""

_LENGTH = struct.Struct(">i")
_LENGTH_AT, _LENGTH_END = 8, 12
_MIN_BYTES, _MAX_BYTES = 61, 256 * 1024 * 1024
_MAY_BE_BLOCK = bytes([1, 15])
"""Frame version and type of a `ProducerIdsRecord`. Batches without these bytes are skipped."""


@dataclass(frozen=True)
class MetadataHistory:
    """Blocks in a metadata log. Blocks below the id `complete_from` may be missing."""

    blocks: tuple[Block, ...]
    complete_from: int
    skipped_batches: int = 0


def read_metadata_blocks(
    folder: Path, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> MetadataHistory:
    """Read the blocks of a metadata log."""
    try:
        segments = _segments_of(folder)
        start = _start_of(segments[0])
        found = _BlockReader(start)
        sizes = [segment.stat().st_size for segment in segments]
        for number, segment in enumerate(segments):
            progress(sum(sizes[:number]), sum(sizes))
            found.read(segment.read_bytes())
    except (OSError, ValueError, struct.error) as error:
        raise _unreadable(folder, error) from error
    first = found.blocks[0].first if found.blocks else (start or 0)
    return MetadataHistory(tuple(found.blocks), first if start is None else start, found.skipped)


def _segments_of(folder: Path) -> list[Path]:
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    segments = sorted(each for each in folder.glob("*.log") if each.stem.isdigit())
    if not segments:
        msg = f"no metadata log in {folder}: give the folder {FOLDER} of a broker or controller, or its parent"
        raise MetadataLogError(msg)
    return segments


def _start_of(segment: Path) -> int | None:
    """Return the first producer id that was free when a segment began, or None."""
    begins_at = int(segment.stem)
    if begins_at == 0:
        return 0
    # Kafka deletes old segments. A snapshot at their end then contains the next id.
    snapshots = sorted(segment.parent.glob("*.checkpoint"))
    for snapshot in reversed([path for path in snapshots if int(path.stem.split("-")[0]) <= begins_at]):
        reader = _BlockReader(None)
        reader.read(snapshot.read_bytes())
        if reader.next_producer_id is not None:
            return reader.next_producer_id
    return None


def _unreadable(folder: Path, error: Exception) -> MetadataLogError:
    return MetadataLogError(f"can't read the metadata log in {folder} ({error}): check the folder and its permissions")


class _BlockReader:
    """A collector of blocks from consecutive batches. `next_producer_id` is the first free id, or None."""

    def __init__(self, next_producer_id: int | None) -> None:
        self.next_producer_id = next_producer_id
        self.blocks: list[Block] = []
        self.skipped = 0

    def read(self, content: bytes) -> None:
        for timestamp_ms, value in self._values(content):
            record = producer_ids_record(value)
            if record is None:
                continue
            broker_id, broker_epoch, next_producer_id = record
            first = next_producer_id - BLOCK_LENGTH if self.next_producer_id is None else self.next_producer_id
            if next_producer_id > first:
                self.blocks.append(Block(first, next_producer_id - first, broker_id, broker_epoch, timestamp_ms))
            self.next_producer_id = next_producer_id

    def _values(self, content: bytes) -> Iterator[tuple[int, bytes]]:
        records = MemoryRecords(content)
        while records.has_next():
            try:
                batch = records.next_batch()
                if not batch.validate_crc():
                    self.skipped += 1
                elif not batch.is_control_batch:
                    yield from ((record.timestamp, bytes(record.value)) for record in batch if record.value)
            except KafkaError:
                self.skipped += 1


def producer_ids_record(value: bytes) -> tuple[int, int, int] | None:
    """Return broker id, broker epoch and next producer id of a `ProducerIdsRecord`; None for other records.

    Examples:
        >>> producer_ids_record(bytes([1, 15, 0]) + bytes([0, 0, 0, 2]) + bytes(7) + b"!" + bytes(6) + b"!@" + b"!")
        (2, 33, 8512)
    """
    at, numbers = 0, []
    for _ in range(3):
        number, at = _varint(value, at)
        numbers.append(number)
    if numbers[0] != _FRAME_VERSION or numbers[1] != _PRODUCER_IDS_RECORD or len(value) < at + _FIELDS.size:
        return None
    broker_id, broker_epoch, next_producer_id = _FIELDS.unpack_from(value, at)
    return int(broker_id), int(broker_epoch), int(next_producer_id)


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for position in range(at, min(at + 5, len(value))):
        number |= (value[position] & 0x7F) << shift
        if value[position] < 0x80:
            return number, position + 1
        shift += 7
    return -1, len(value)


class MetadataPosition(msgspec.Struct, frozen=True):
    """A position in a metadata log: a segment's first offset, and the next byte in the segment.

    `next_producer_id` is the first id after the blocks so far, or None.
    """

    segment: Annotated[int, msgspec.Meta(ge=0)] = 0
    byte: Annotated[int, msgspec.Meta(ge=0)] = 0
    next_producer_id: int | None = None


class MetadataFollower:
    """A reader of a metadata log from a position."""

    def __init__(self, position: MetadataPosition | None = None) -> None:
        self.position = position
        """The position after the last batch, or None."""
        self.is_behind = False

    def read(self, folder: Path) -> list[Block]:
        """Return the blocks in the next `STEP_BYTES`."""
        segments = _segments_of(folder)
        try:
            segment, at = self._current(segments)
            reader = _BlockReader(at.next_producer_id)
            with segment.open("rb") as file:
                file.seek(at.byte)
                chunk = file.read(STEP_BYTES)
                size = _frame_bytes(chunk, 0)
                if size > len(chunk):
                    chunk += file.read(size - len(chunk))
            done = _read_frames(reader, chunk)
        except (OSError, ValueError) as error:
            # Kafka may have truncated the segment and appended to it. Read the segment again from its beginning.
            self.position = None if self.position is None else MetadataPosition(self.position.segment)
            raise _unreadable(folder, error) from error
        # There may be more to read after a batch, or if another segment follows.
        self.is_behind = done > 0 or segment != segments[-1]
        self.position = MetadataPosition(at.segment, at.byte + done, reader.next_producer_id)
        if not done and segment != segments[-1]:
            following = segments[segments.index(segment) + 1]
            self.position = MetadataPosition(int(following.stem), 0, reader.next_producer_id)
        return reader.blocks

    def _current(self, segments: list[Path]) -> tuple[Path, MetadataPosition]:
        at = self.position
        for segment in segments:
            if at is not None and int(segment.stem) == at.segment:
                # If a segment has lost its end, read it again. Each block still counts once.
                return segment, at if at.byte <= segment.stat().st_size else _beginning_of(segment)
        later = [each for each in segments if at is None or int(each.stem) > at.segment] or segments
        return later[0], _beginning_of(later[0])


def _beginning_of(segment: Path) -> MetadataPosition:
    return MetadataPosition(int(segment.stem), 0, _start_of(segment))


def _read_frames(reader: _BlockReader, chunk: bytes) -> int:
    at = 0
    while (size := _frame_bytes(chunk, at)) and at + size <= len(chunk):
        frame = chunk[at : at + size]
        if _MAY_BE_BLOCK in frame:
            reader.read(frame)
        at += size
    return at


def _frame_bytes(chunk: bytes, at: int) -> int:
    """Return the length of the batch at an offset; 0 if the batch is incomplete."""
    if len(chunk) < at + _LENGTH_END:
        return 0
    length = int(_LENGTH.unpack_from(chunk, at + _LENGTH_AT)[0])
    if length == 0:
        # The space is allocated, but not written yet.
        return 0
    if not _MIN_BYTES <= length + _LENGTH_END <= _MAX_BYTES:
        msg = f"no batch of {length} bytes"
        raise ValueError(msg)
    return length + _LENGTH_END

"""Reads blocks of producer ids from a controller's metadata log: the history from before the tap was installed.

The log is `__cluster_metadata-0` in a controller's `metadata.log.dir` (or `log.dirs`); a copy will do, and the
controller may be running. Each block is a `ProducerIdsRecord`, which holds the start of the *next* block (KIP-730).
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kafka.errors import KafkaError
from kafka.record.memory_records import MemoryRecords

from broker.errors import MetadataLogError
from lifecycle.producer_id_blocks import BLOCK_LENGTH, Block

FOLDER = "__cluster_metadata-0"

_PRODUCER_IDS_RECORD = 15
_FRAME_VERSION = 1
_FIELDS = struct.Struct(">iqq")


@dataclass(frozen=True)
class MetadataHistory:
    """Blocks in a metadata log.

    Attributes:
        blocks: In order of allocation.
        complete_from: Ids below were allocated before this log begins; 0 if the history is complete.
        skipped_batches: Damaged batches, whose records are missing.
    """

    blocks: tuple[Block, ...]
    complete_from: int
    skipped_batches: int = 0


def read_metadata_blocks(
    folder: Path, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> MetadataHistory:
    """Read the blocks of a metadata log, without a JVM.

    Args:
        folder: `__cluster_metadata-0`, or the folder that holds it.
        progress: called with bytes read and bytes in total.

    Raises:
        MetadataLogError: there is no such log, or it can't be read.
    """
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    try:
        segments = sorted(folder.glob("*.log"))
        if not segments:
            msg = f"no metadata log in {folder}: give the folder {FOLDER} of a controller, or its parent"
            raise MetadataLogError(msg)
        # Retention deletes old segments; a snapshot then tells the next id.
        snapshots = sorted(folder.glob("*.checkpoint"))
        begins_at = int(segments[0].stem)
        start = _last_of([path for path in snapshots if int(path.stem.split("-")[0]) <= begins_at]) if begins_at else 0
        found = _Reader(start)
        sizes = [segment.stat().st_size for segment in segments]
        for number, segment in enumerate(segments):
            progress(sum(sizes[:number]), sum(sizes))
            found.read(segment.read_bytes())
    except (OSError, ValueError, struct.error) as error:
        msg = f"can't read the metadata log in {folder} ({error}): check the folder and its permissions"
        raise MetadataLogError(msg) from error
    first = found.blocks[0].first if found.blocks else (start or 0)
    return MetadataHistory(tuple(found.blocks), first if start is None else start, found.skipped)


def _last_of(snapshots: list[Path]) -> int | None:
    """Start of the next block, by the newest snapshot that has it; None if none has."""
    for snapshot in reversed(snapshots):
        reader = _Reader(None)
        reader.read(snapshot.read_bytes())
        if reader.next_producer_id is not None:
            return reader.next_producer_id
    return None


class _Reader:
    """Collects blocks over consecutive files."""

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
    """Broker id, broker epoch and next producer id of a `ProducerIdsRecord`; None if it is another record.

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

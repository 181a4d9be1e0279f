"""Writes a metadata log in Kafka's format."""

import struct
from pathlib import Path

from kafka.record.default_records import DefaultRecordBatchBuilder

OTHER_RECORD = bytes([1, 2, 3]) + bytes(30)


def ids_record(broker_id: int, broker_epoch: int, next_producer_id: int) -> bytes:
    return bytes([1, 15, 0]) + struct.pack(">iqq", broker_id, broker_epoch, next_producer_id) + b"\0"


def batch(*values: bytes, at_ms: int = 1000) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, at_ms, None, value, [])
    return bytes(builder.build())


def write(folder: Path, name: str, *batches: bytes) -> None:
    (folder / name).write_bytes(b"".join(batches))

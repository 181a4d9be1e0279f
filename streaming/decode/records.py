"""Decodes Kafka records of `produce-events` into columns of events, and quarantines bad records.

pyarrow's JSON reader parses all values of a block at once. If a value is bad, a second decoder with the same rules
decodes the values one by one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from streaming.decode.checks import MAX_INT64, bad_events
from streaming.decode.exploded import EVENT_SCHEMA, SOURCE_COLUMNS, Exploded, misfits
from wire.packed_events import Quarantined

MAX_KEPT_BYTES = 4096
"""Longer quarantined values are truncated."""


_NO_NUMBER = re.compile(rb"(?:\"\s*:|[,\[])\s*-?(?:NaN|Inf)")


class _Group(msgspec.Struct):
    client_id: str | None = None
    address: str | None = None
    learning: bool | None = None


class _Record(msgspec.Struct):
    """A record, with the fields of `EVENT_SCHEMA`."""

    timestamp_ms: int
    principal: str
    after_ms: list[int | None] | None = None
    producer_ids: list[int | None] | None = None
    groups: list[_Group | None] | None = None
    group: list[int | None] | None = None


_decoder = msgspec.json.Decoder(_Record)


@dataclass(frozen=True)
class DecodedBlock:
    """A decoded block of records.

    Attributes:
        events: Events that satisfy the contract.
        quarantined: Records that can't be decoded, or contain an event that breaks the contract.
    """

    events: Exploded
    quarantined: list[Quarantined]


def decode(records: pa.Table, begin_ms: int | None = None) -> DecodedBlock:
    """Decode a block of Kafka records.

    `records` has the columns `value` (binary), `topic`, `partition`, `offset` and `record_ms` (Kafka's timestamp, int64
    milliseconds). `begin_ms` is as in `bad_events`.
    """
    parsed = _parse_block(records["value"].combine_chunks())
    if parsed is None:
        return _decode_one_by_one(records, begin_ms)
    return _checked(records, parsed, begin_ms)


def _checked(records: pa.Table, parsed: pa.Table, begin_ms: int | None) -> DecodedBlock:
    """Explode and check parsed records. `parsed` and `records` have the same rows."""
    bad: dict[int, str] = {}
    for failed, reason in misfits(parsed):
        bad = dict.fromkeys(np.flatnonzero(failed).tolist(), reason) | bad
    rows = np.delete(np.arange(len(records)), list(bad))
    sources = records.select(SOURCE_COLUMNS)
    if bad:
        parsed, sources = parsed.take(rows), sources.take(rows)
    for name in SOURCE_COLUMNS:
        parsed = parsed.append_column(name, sources[name])
    events = Exploded.explode(parsed)
    failed, reasons = bad_events(events, begin_ms)
    if reasons:
        events = events.filter(~failed)
        bad |= {int(rows[row]): reason for row, reason in reasons.items()}
    return DecodedBlock(events, _quarantine(records, bad))


def _parse_block(values: pa.Array) -> pa.Table | None:
    """Parse all values at once. Return None if they must be decoded one by one."""
    if values.null_count or not len(values):
        return None
    lines = _joined(values)
    # If one value held two objects and another value none, all rows between them would shift. So every line break must
    # be one that `_joined` inserted.
    breaks = len(values) - 1
    if not (lines.startswith(b"{") and lines.endswith(b"}")):
        return None
    if lines.count(b"\n") != breaks or lines.count(b"}\n{") != breaks:
        return None
    if (b"NaN" in lines or b"Inf" in lines) and _NO_NUMBER.search(lines):
        # pyarrow accepts NaN and Infinity. JSON and the second decoder do not.
        return None
    options = arrow_json.ParseOptions(explicit_schema=EVENT_SCHEMA, unexpected_field_behavior="ignore")
    block_size = arrow_json.ReadOptions(use_threads=False, block_size=max(len(lines) + 1, 1 << 20))
    try:
        parsed = arrow_json.read_json(pa.BufferReader(lines), block_size, options)
        parsed.validate(full=True)
    except pa.ArrowException:
        return None
    return parsed if parsed.num_rows == len(values) else None


def _joined(values: pa.Array) -> bytes:
    if values.offset:
        return b"\n".join(values.to_pylist())
    together = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    joined: bytes = pc.binary_join(together, b"\n")[0].as_py()
    return joined


def _decode_one_by_one(records: pa.Table, begin_ms: int | None) -> DecodedBlock:
    found, rows, bad = [], [], {}
    for row, value in enumerate(records["value"].to_pylist()):
        record, reason = _decode_one(value)
        if record is None:
            bad[row] = reason
        else:
            found.append(msgspec.to_builtins(record))
            rows.append(row)
    parsed = pa.Table.from_pylist(found, schema=EVENT_SCHEMA)
    decoded = _checked(records.take(pa.array(rows, pa.int64())), parsed, begin_ms)
    return DecodedBlock(decoded.events, [*_quarantine(records, bad), *decoded.quarantined])


def _decode_one(value: bytes | None) -> tuple[_Record | None, str]:
    """Return a value's record and an empty text, or None and the reason for the quarantine."""
    if not value:
        return None, "value is empty"
    try:
        record = _decoder.decode(value)
    except RecursionError:
        # An ignored field is nested too deep for this decoder. Try pyarrow, which does not recurse.
        parsed = _parse_block(pa.array([value], pa.binary()))
        if parsed is None:
            return None, "not an event: nested too deep"
        record = msgspec.convert(parsed.to_pylist()[0], _Record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return None, f"not an event: {error}"
    return (record, "") if _fits(record) else (None, "a number is out of the range of int64")


def _fits(record: _Record) -> bool:
    columns = (record.after_ms or (), record.producer_ids or (), record.group or ())
    longs = chain((record.timestamp_ms,), *columns)
    return all(-MAX_INT64 <= (number or 0) + 1 <= MAX_INT64 + 1 for number in longs)


def _quarantine(records: pa.Table, bad: Mapping[int, str]) -> list[Quarantined]:
    if not bad:
        return []
    rows = sorted(bad)
    columns = records.select(["value", "topic", *SOURCE_COLUMNS]).take(pa.array(rows, pa.int64()))
    return [_quarantined(each, bad[row]) for row, each in zip(rows, columns.to_pylist(), strict=True)]


def _quarantined(row: dict[str, object], reason: str) -> Quarantined:
    value = row["value"] if isinstance(row["value"], bytes) else b""
    if len(value) > MAX_KEPT_BYTES:
        reason += f" (value cut to {MAX_KEPT_BYTES} of {len(value)} bytes)"
        value = value[:MAX_KEPT_BYTES]
    return Quarantined(value, reason, str(row["topic"]), *(int(str(row[name])) for name in SOURCE_COLUMNS))


def blocks(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[pa.Table]:
    """Join or split a task's Arrow batches into blocks of about `max_bytes`."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        # A batch of large records may fill many blocks.
        rows = max(1, batch.num_rows * max_bytes // max(1, batch.nbytes))
        for begin in range(0, batch.num_rows, rows):
            part = batch.slice(begin, rows)
            held.append(part)
            held_bytes += part.nbytes
            if held_bytes >= max_bytes:
                yield pa.Table.from_batches(held)
                held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)

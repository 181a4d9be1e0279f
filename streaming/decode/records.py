"""Decodes Kafka record values into columns of produce events; invalid records go to quarantine.

pyarrow's JSON reader parses all values of a block at once; only a block with a bad value is decoded again one by one,
by a decoder with the same rules.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from quota.principals import MAX_PRINCIPAL_BYTES
from wire.packed_events import Quarantined

EVENT_SCHEMA = pa.schema(
    [
        ("timestamp_ms", pa.int64()),
        ("principal", pa.string()),
        ("producer_id", pa.int64()),
        ("client_id", pa.string()),
        ("correction", pa.bool_()),
        ("learning", pa.bool_()),
        ("asked_at_ms", pa.int64()),
        ("broker_id", pa.int32()),
    ]
)
"""The fields of the `produce-events` contract that the rules read. Others are ignored."""

SOURCE_COLUMNS = ("partition", "offset", "record_ms")
MAX_INT64 = 2**63 - 1
MAX_INT32 = 2**31 - 1
MAX_KEPT_BYTES = 4096
"""A quarantined value is truncated to this."""


_NO_NUMBER = re.compile(rb"(?:\"\s*:|[,\[])\s*-?(?:NaN|Inf)")


class _Event(msgspec.Struct):
    """One event, for values that are decoded one by one."""

    timestamp_ms: int
    principal: str
    producer_id: int
    client_id: str | None = None
    correction: bool | None = None
    learning: bool | None = None
    asked_at_ms: int | None = None
    broker_id: int | None = None


_decoder = msgspec.json.Decoder(_Event)


@dataclass(frozen=True)
class DecodedBlock:
    """A decoded block of records.

    Attributes:
        events: Columns of `EVENT_SCHEMA` and `SOURCE_COLUMNS`; every row satisfies the contract.
        quarantined: The records that do not.
    """

    events: pa.Table
    quarantined: list[Quarantined]


@dataclass(frozen=True)
class Contract:
    """What an event must satisfy beyond its schema.

    Attributes:
        max_clock_skew_ms: How far an event may be ahead of its record's own time, in milliseconds.
        needs_broker: Whether `broker_id` is required, as in scope `broker`.
    """

    max_clock_skew_ms: int
    needs_broker: bool = False


def decode(records: pa.Table, contract: Contract, begin_ms: int | None = None) -> DecodedBlock:
    """Decode a block of Kafka records.

    Args:
        records: Columns `value` (binary), `topic`, `partition`, `offset`, `record_ms` (int64, the record's own time).
        contract: What events must satisfy.
        begin_ms: The driver's clock when the batch began, in ms since the epoch; None if unknown.
    """
    parsed = _parse_block(records["value"].combine_chunks())
    if parsed is None:
        return _decode_one_by_one(records, contract, begin_ms)
    events = _with_source(parsed, records)
    reasons = _reasons(events, contract, begin_ms)
    if reasons.null_count == len(reasons):
        return DecodedBlock(events, [])
    is_good = pc.is_null(reasons)
    bad = records.append_column("reason", reasons).filter(pc.invert(is_good))
    return DecodedBlock(events.filter(is_good), [_quarantined(row, row["reason"]) for row in bad.to_pylist()])


def _parse_block(values: pa.Array) -> pa.Table | None:
    """Parse all values at once; None if one of them has to be decoded on its own."""
    if values.null_count or not len(values):
        return None
    lines = _joined(values)
    # A value of two objects and an empty one would otherwise shift all rows between them: require that each line break
    # is one that we put between two objects.
    breaks = len(values) - 1
    if not (lines.startswith(b"{") and lines.endswith(b"}")):
        return None
    if lines.count(b"\n") != breaks or lines.count(b"}\n{") != breaks:
        return None
    if (b"NaN" in lines or b"Inf" in lines) and _NO_NUMBER.search(lines):
        # The reader accepts them as numbers. JSON does not, nor does the decoder of single values.
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
    """Join all values by line breaks."""
    if values.offset:
        return b"\n".join(values.to_pylist())
    together = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    joined: bytes = pc.binary_join(together, b"\n")[0].as_py()
    return joined


def _reasons(events: pa.Table, contract: Contract, begin_ms: int | None) -> pa.ChunkedArray:
    """Return why each row is invalid, null if it is valid."""
    time, principal, pid = events["timestamp_ms"], events["principal"], events["producer_id"]
    earliest, clock_ms = pc.subtract(time, contract.max_clock_skew_ms), MAX_INT64 if begin_ms is None else begin_ms
    checks = [
        (pc.is_null(time), "timestamp_ms is missing"),
        (pc.is_null(principal), "principal is missing"),
        (pc.is_null(pid), "producer_id is missing"),
        (pc.less(time, 0), "timestamp_ms is negative"),
        (pc.less(pid, -1), "producer_id is below -1"),
        (pc.invert(pc.match_substring_regex(principal, r"\A(unknown|[^:]+:(?s:.+))\z")), "principal is not Type:name"),
        (
            pc.greater(pc.binary_length(principal), MAX_PRINCIPAL_BYTES),
            f"principal is longer than {MAX_PRINCIPAL_BYTES} bytes",
        ),
        (pc.greater(earliest, events["record_ms"]), "timestamp_ms is in the future"),
        (
            pc.greater(earliest, clock_ms),
            "timestamp_ms is ahead of the stream's clock",
        ),
        (pc.and_(pc.is_null(events["broker_id"]), contract.needs_broker), "broker_id is missing"),
    ]
    conditions = pc.make_struct(*[pc.fill_null(condition, False) for condition, _ in checks])
    return pc.case_when(conditions, *[pa.scalar(reason) for _, reason in checks])


def _decode_one_by_one(records: pa.Table, contract: Contract, begin_ms: int | None) -> DecodedBlock:
    found, positions, quarantined = [], [], []
    columns = records.select(["value", "topic", "partition", "offset", "record_ms"])
    for position, value in enumerate(columns["value"].to_pylist()):
        event, reason = _decode_one(value)
        if event is None:
            quarantined.append(_quarantined(columns.slice(position, 1).to_pylist()[0], reason))
        else:
            found.append(event)
            positions.append(position)
    parsed = pa.table(
        [pa.array([getattr(event, each.name) for event in found], each.type) for each in EVENT_SCHEMA],
        schema=EVENT_SCHEMA,
    )
    events = _with_source(parsed, records.take(pa.array(positions, pa.int64())))
    reasons = _reasons(events, contract, begin_ms)
    for position, reason in zip(positions, reasons.to_pylist(), strict=True):
        if reason:
            quarantined.append(_quarantined(columns.slice(position, 1).to_pylist()[0], reason))
    return DecodedBlock(events.filter(pc.is_null(reasons)), quarantined)


def _decode_one(value: bytes | None) -> tuple[_Event | None, str]:
    """Return the event in a value, or None and the reason."""
    if not value:
        return None, "value is empty"
    try:
        event = _decoder.decode(value)
    except RecursionError:
        # An ignored field nested so deep that only the block reader, which does not recurse, can parse it.
        parsed = _parse_block(pa.array([value], pa.binary()))
        return (None, "not an event: nested too deep") if parsed is None else (_Event(**parsed.to_pylist()[0]), "")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return None, f"not an event: {error}"
    return (event, "") if _fits(event) else (None, "a number is out of the range of int64, broker_id of int32")


def _fits(event: _Event) -> bool:
    longs = (event.producer_id, event.timestamp_ms, event.asked_at_ms or 0)
    longs_fit = all(-MAX_INT64 <= number + 1 <= MAX_INT64 + 1 for number in longs)
    return longs_fit and -MAX_INT32 <= (event.broker_id or 0) + 1 <= MAX_INT32 + 1


def _with_source(events: pa.Table, records: pa.Table) -> pa.Table:
    for name in SOURCE_COLUMNS:
        events = events.append_column(name, records[name])
    return events


def _quarantined(row: dict[str, object], reason: str) -> Quarantined:
    value = row["value"] if isinstance(row["value"], bytes) else b""
    if len(value) > MAX_KEPT_BYTES:
        reason += f" (value cut to {MAX_KEPT_BYTES} of {len(value)} bytes)"
        value = value[:MAX_KEPT_BYTES]
    return Quarantined(value, reason, str(row["topic"]), *(int(str(row[name])) for name in SOURCE_COLUMNS))


def blocks(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[pa.Table]:
    """Join a task's Arrow batches into blocks of about `max_bytes`."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= max_bytes:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)

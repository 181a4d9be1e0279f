"""Rows of the operator. Workers pack the rows, and the driver unpacks them into columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from tables.schema.ddl import row_schema

OUTPUT_SCHEMA = "packed BINARY"
"""The output has one packed value per group, with all of the group's rows."""

Row = tuple[str, Any]
"""A kind and a body.

If the kind is a table's name, the body is a row of the table, with times in milliseconds: a dict, or a struct that
unpacks as a dict.

Other kinds are notes for the driver. The body is a number for a kind in `streaming.batch.tracked_principals.NOTES`, and
a partition and a time for `streaming.batch.context.MAX_EVENT_TIME`.
"""

Rows = list[Row]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Rows)


def pack(rows: Rows) -> pd.DataFrame:
    """Return rows as a frame of `OUTPUT_SCHEMA`."""
    packed = np.empty(1, object)
    packed[0] = _encoder.encode(rows)
    return pd.DataFrame({"packed": packed}, copy=False)


def unpack_rows(packed: Iterable[bytes]) -> Rows:
    """Return the rows of all packed values, in order."""
    return [row for each in packed for row in _decoder.decode(each)]


def by_kind(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Return the bodies of the rows by kind."""
    found: dict[str, list[Any]] = {}
    for kind, body in rows:
        found.setdefault(kind, []).append(body)
    return found


def table_rows(bodies: Sequence[Mapping[str, Any]], table: str, batch_id: int) -> pa.Table:
    """Return row bodies as an Arrow table with the columns of `table`."""
    schema = row_schema(table)
    given = {**dict.fromkeys(schema.names), "batch_id": batch_id}
    columns = [_array([body.get(name, given[name]) for body in bodies], schema.field(name).type) for name in given]
    return pa.table(columns, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.timestamp("ms", kind.tz)).cast(kind)
    if pa.types.is_map(kind):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, kind)

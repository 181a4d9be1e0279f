"""Records and events of a test: as a block that Spark reads, as a table with a row for each event, and as columns."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.decode.exploded import EVENT_SCHEMA, GROUP_FIELDS, GROUP_NAMES, SOURCE_COLUMNS, Exploded

_TYPES = {field.name: field.type for field in (*EVENT_SCHEMA, *pa.schema(GROUP_FIELDS))}
_TYPES |= {"producer_id": pa.int64(), "partition": pa.int32(), "offset": pa.int64(), "record_ms": pa.int64()}


def event_value(pid: int, principal: str, timestamp_ms: int, **shared: object) -> bytes:
    """Return the value of a record of one event. `shared` are fields of its group."""
    groups = {"groups": [shared]} if shared else {}
    record = {"timestamp_ms": timestamp_ms, "principal": principal, "after_ms": [0], "producer_ids": [pid], **groups}
    return json.dumps(record).encode()


def block_of(values: Sequence[bytes | None], record_ms: int, partition: int = 3, first_offset: int = 0) -> pa.Table:
    """Records as they are read from Kafka."""
    size = len(values)
    return pa.table(
        {
            "value": pa.array(values, pa.binary()),
            "topic": ["produce-events"] * size,
            "partition": pa.array([partition] * size, pa.int32()),
            "offset": pa.array(range(first_offset, first_offset + size), pa.int64()),
            "record_ms": pa.array([record_ms] * size, pa.int64()),
        }
    )


def event_table(pids: Sequence[int], timestamps_ms: Sequence[int], **columns: Sequence[Any]) -> pa.Table:
    """Events of User:a in partition 0, from offset 0 on, unless `columns` say otherwise."""
    size = len(pids)
    usual = {"principal": ["User:a"] * size, "partition": [0] * size, "offset": range(size)}
    rows = {"producer_id": pids, "timestamp_ms": timestamps_ms} | usual | columns
    return pa.table({name: pa.array(values, _TYPES[name]) for name, values in rows.items()})


def exploded(table: pa.Table) -> Exploded:
    """Events that are a record each; what a table does not say of them is null."""
    size = len(table)
    own = {"after_ms": pa.array([[0]] * size, pa.list_(pa.int64())), "group": pa.nulls(size, pa.list_(pa.int64()))}
    own["producer_ids"] = pa.array([[pid] for pid in table["producer_id"].to_pylist()], pa.list_(pa.int64()))
    groups = [
        [{name: table[name][row].as_py() for name in GROUP_NAMES if name in table.column_names}] for row in range(size)
    ]
    own["groups"] = pa.array(groups, EVENT_SCHEMA.field("groups").type)
    for name, values in own.items():
        table = table.append_column(name, values)
    if "record_ms" not in table.column_names:
        table = table.append_column("record_ms", table["timestamp_ms"])
    return Exploded.explode(table)


def table_of(events: Exploded) -> pa.Table:
    """A row per event, with what it shares with others."""
    shared = events.groups.take(pa.array(events.group))
    records = events.records.take(pa.array(np.repeat(np.arange(len(events.counts)), events.counts), pa.int64()))
    principals = records["principal"].combine_chunks().dictionary_decode()
    return pa.table(
        {
            "timestamp_ms": events.timestamps_ms,
            "principal": principals,
            "producer_id": events.producer_ids,
            **{name: shared[name] for name in shared.column_names},
            **{name: records[name] for name in SOURCE_COLUMNS},
        }
    )

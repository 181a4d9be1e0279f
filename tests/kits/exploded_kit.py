"""Converts a table with a row for each event to columns, and back."""

import numpy as np
import pyarrow as pa

from streaming.decode.exploded import EVENT_SCHEMA, SOURCE_COLUMNS, Exploded


def exploded(table: pa.Table) -> Exploded:
    """Events that are a record each; what a table does not say of them is null."""
    for field in EVENT_SCHEMA:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    if "record_ms" not in table.column_names:
        table = table.append_column("record_ms", table["timestamp_ms"])
    return Exploded.of(table)


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
            **{name: records[name] for name in ("broker_id", *SOURCE_COLUMNS)},
        }
    )

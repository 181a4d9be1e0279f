"""Explodes parsed records of `produce-events` into columns of events.

Fields that events share stay in one row per record or group, so they are checked and encoded once.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wire.event_record import MAX_EVENTS

GROUP_FIELDS = [("client_id", pa.string()), ("address", pa.string()), ("learning", pa.bool_())]
GROUP_NAMES = [name for name, _ in GROUP_FIELDS]
EVENT_SCHEMA = pa.schema(
    [
        ("timestamp_ms", pa.int64()),
        ("principal", pa.string()),
        ("after_ms", pa.list_(pa.int64())),
        ("producer_ids", pa.list_(pa.int64())),
        ("groups", pa.list_(pa.struct(GROUP_FIELDS))),
        ("group", pa.list_(pa.int64())),
    ]
)
"""The fields of `produce-events` that the rules read."""

SOURCE_COLUMNS = ["partition", "offset", "record_ms"]
RECORD_NAMES = ["principal", *SOURCE_COLUMNS]


@dataclass(frozen=True)
class Exploded:
    """Events of a block of records, as columns. Events are in the order of `records`.

    Attributes:
        records: A row per record, with the columns `RECORD_NAMES`. The principal is dictionary-encoded.
        counts: Number of events of each record.
        groups: A row per combination of the fields that events share (`GROUP_FIELDS`).
        group: Each event's row in `groups`.
    """

    records: pa.Table
    counts: np.ndarray
    groups: pa.Table
    group: np.ndarray
    timestamps_ms: np.ndarray
    producer_ids: np.ndarray

    @classmethod
    def explode(cls, parsed: pa.Table) -> "Exploded":
        """Explode records that have no `misfits`. `parsed` has columns of `EVENT_SCHEMA` and `SOURCE_COLUMNS`."""
        parsed = parsed.combine_chunks()
        principals = parsed["principal"].combine_chunks().dictionary_encode()
        records = parsed.select(RECORD_NAMES).set_column(0, "principal", principals)
        lists = column(parsed, "producer_ids")
        counts = lengths(lists)
        times = np.repeat(column(parsed, "timestamp_ms").to_numpy(), counts)
        times += pc.list_flatten(column(parsed, "after_ms")).to_numpy()
        return cls(records, counts, *_groups(parsed, counts), times, pc.list_flatten(lists).to_numpy())

    def __len__(self) -> int:
        return len(self.producer_ids)

    def record(self) -> np.ndarray:
        """Return each event's row in `records`."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def filter(self, kept: np.ndarray) -> "Exploded":
        """Return the events that a mask selects, and their records."""
        counts = np.bincount(self.record()[kept], minlength=len(self.counts))
        columns = (each[kept] for each in (self.group, self.timestamps_ms, self.producer_ids))
        return Exploded(self.records.filter(pa.array(counts > 0)), counts[counts > 0], self.groups, *columns)

    def select(self, rows: np.ndarray) -> "Exploded":
        """Return the events of some rows of `records`, in the order of `rows`."""
        counts, begins = self.counts[rows], np.cumsum(self.counts) - self.counts
        events = np.repeat(begins[rows] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        columns = (each[events] for each in (self.group, self.timestamps_ms, self.producer_ids))
        return Exploded(self.records.take(rows), counts, self.groups, *columns)


def _groups(parsed: pa.Table, counts: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """Return the groups of all records, then a group of nulls for records without groups; and each event's row in them.

    `counts` holds the number of each record's events.
    """
    lists, named = column(parsed, "groups"), column(parsed, "group")
    flat = pa.Table.from_struct_array(pc.list_flatten(lists))
    groups = pa.concat_tables([flat, pa.table([pa.nulls(1, kind) for _, kind in GROUP_FIELDS], GROUP_NAMES)])
    sizes = lengths(lists)
    group = np.repeat(np.where(sizes > 0, np.cumsum(sizes) - sizes, len(flat)), counts)
    if named.null_count < len(named):
        group[np.repeat(~is_null(named), counts)] += pc.list_flatten(named).to_numpy()
    return groups, group


def misfits(parsed: pa.Table) -> list[tuple[np.ndarray, str]]:
    """Return masks of the records that can't be exploded, and the reasons. `parsed` has columns of `EVENT_SCHEMA`."""
    sizes = lengths(column(parsed, "producer_ids"))
    checks = [(is_null(column(parsed, name)), f"{name} is missing") for name in ("timestamp_ms", "principal")]
    checks += [
        (sizes == 0, "producer_ids is missing or empty"),
        (sizes > MAX_EVENTS, f"more than {MAX_EVENTS} events"),
    ]
    after_ms, group = column(parsed, "after_ms"), column(parsed, "group")
    checks.append((lengths(after_ms) != sizes, "after_ms and producer_ids differ in length"))
    checks.append((~is_null(group) & (lengths(group) != sizes), "group and producer_ids differ in length"))
    for name in ("producer_ids", "after_ms", "group", "groups"):
        each = column(parsed, name)
        checks.append((_any(each, is_null(pc.list_flatten(each))), f"{name} holds null"))
    return [*checks, *_beyond(parsed)]


def _beyond(parsed: pa.Table) -> list[tuple[np.ndarray, str]]:
    """Return masks of the records whose indexes or times are out of range."""
    group, after_ms = column(parsed, "group"), column(parsed, "after_ms")
    indexes = pc.list_flatten(group).fill_null(0).to_numpy()
    sizes = np.maximum(lengths(column(parsed, "groups")), 1)[_parents(group)]
    after = pc.list_flatten(after_ms).fill_null(0).to_numpy()
    begin = column(parsed, "timestamp_ms").fill_null(0).to_numpy()[_parents(after_ms)]
    # If the sign of a sum differs from the signs of both numbers, the sum has wrapped around.
    wraps = ((begin + after) ^ begin) & ((begin + after) ^ after) < 0
    return [
        (_any(group, (indexes < 0) | (indexes >= sizes)), "group is out of range"),
        (_any(after_ms, wraps), "after_ms is out of range"),
    ]


def column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    return table[name].combine_chunks()


def lengths(lists: pa.Array) -> np.ndarray:
    """Return the length of each list, 0 for null."""
    sizes: np.ndarray = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    return sizes


def is_null(values: pa.Array) -> np.ndarray:
    """Return a mask of null values."""
    if not values.null_count:
        return np.zeros(len(values), bool)
    found: np.ndarray = pc.is_null(values).to_numpy(zero_copy_only=False)
    return found


def _parents(lists: pa.Array) -> np.ndarray:
    """Return the row of each element's list."""
    return np.repeat(np.arange(len(lists)), lengths(lists))


def _any(lists: pa.Array, of_elements: np.ndarray) -> np.ndarray:
    """Return a mask of the lists in which `of_elements` selects an element."""
    found = np.zeros(len(lists), bool)
    if of_elements.any():
        found[_parents(lists)[of_elements]] = True
    return found

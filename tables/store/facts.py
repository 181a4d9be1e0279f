"""A table's size, row count and time range, from the table's log."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tables.schema.specs import TableSpec
from tables.store.values import ColumnFacts, TableFacts

if TYPE_CHECKING:
    from deltalake import DeltaTable


def table_facts(spec: TableSpec, table: "DeltaTable") -> TableFacts:
    """Return a table's size and contents, from the log's statistics."""
    files = data_files(table)
    counts = files["num_records"]
    # Other writers may omit statistics.
    rows = table.count() if counts.null_count else pc.sum(counts).as_py() or 0
    return TableFacts(
        spec.name,
        table.version(),
        rows,
        files.num_rows,
        pc.sum(files["size_bytes"]).as_py() or 0,
        _extreme(files, f"min.{spec.time_column}", pc.min),
        _extreme(files, f"max.{spec.time_column}", pc.max),
    )


def data_files(table: "DeltaTable") -> pa.Table:
    """Return a row per data file: relative `path`, `size_bytes`, `num_records`, `min.` and `max.` of each column."""
    # pyarrow.table() would load pandas.
    return pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()


def paths_since(files: pa.Table, column: str, since: datetime) -> list[str]:
    """Return the paths of the files (from `data_files`) that may hold a row with `column` at or after `since`."""
    newest = f"max.{column}"
    if newest in files.column_names:
        # Statistics are truncated to milliseconds.
        cut = since.replace(microsecond=since.microsecond // 1000 * 1000)
        limit = pa.scalar(cut, files.schema.field(newest).type)
        files = files.filter(pc.fill_null(pc.greater_equal(files[newest], limit), fill_value=True))
    paths: list[str] = files["path"].to_pylist()
    return paths


def file_sizes(table: "DeltaTable") -> Sequence[int]:
    """Return the size of each data file, in bytes."""
    sizes: list[int] = data_files(table)["size_bytes"].to_pylist()
    return sizes


def column_facts(table: "DeltaTable") -> list[ColumnFacts]:
    """Return a table's columns, in order."""
    return [
        ColumnFacts(column.name, type_words(column.type), column.nullable, str(column.metadata.get("comment", "")))
        for column in table.schema().fields
    ]


def type_words(kind: Any) -> str:
    """Return the name of a deltalake type without nullability, which differs between writers.

    Examples:
        >>> from deltalake.schema import ArrayType, PrimitiveType
        >>> type_words(ArrayType(PrimitiveType("long"), contains_null=False))
        'array<long>'
    """
    name = getattr(kind, "type", "")
    if name == "array":
        return f"array<{type_words(kind.element_type)}>"
    if name == "map":
        return f"map<{type_words(kind.key_type)}, {type_words(kind.value_type)}>"
    return str(name)


def _extreme(files: pa.Table, column: str, function: Any) -> datetime | None:
    return function(files[column]).as_py() if column in files.column_names else None

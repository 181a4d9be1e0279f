"""SQL types, literals and statements for Spark and Databricks, and literals for `deltalake`."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone

import pyarrow as pa

from tables.schema.specs import TABLES, TABLES_VERSION, VERSION_PROPERTY, TableSpec

MARKER = re.compile(r":(\w+)")
"""A parameter's marker in SQL."""

_MERGE = """
MERGE INTO {table} AS old
USING ({source}) AS new
ON {same}
WHEN MATCHED AND new.removed THEN DELETE
WHEN MATCHED THEN UPDATE SET {changes}
WHEN NOT MATCHED AND NOT new.removed THEN INSERT ({names}) VALUES ({values})
"""
_SPARK_TYPES = {
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}


def row_schema(name: str) -> pa.Schema:
    """Return a table's schema without comments, because deltalake rejects rows with comments other than the table's."""
    return pa.schema([column.remove_metadata() for column in TABLES[name].schema])


def spark_ddl(name: str) -> str:
    """Return a table's columns and types in Spark SQL.

    Examples:
        >>> spark_ddl("producer_id_quotas").split(", ")[1:4]
        ['entity_name STRING', 'producer_ids_rate DOUBLE', 'producer_ids_burst DOUBLE']
    """
    return ", ".join(f"{column.name} {spark_type(column.type)}" for column in TABLES[name].schema)


def spark_type(kind: pa.DataType) -> str:
    """Return a column's type in Spark SQL."""
    if pa.types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    return _SPARK_TYPES[kind]


def create_statement(spec: TableSpec, tables: str) -> str:
    """Return CREATE TABLE IF NOT EXISTS, with a comment on each column."""
    columns = ",\n".join(f"  {_column(column)}" for column in spec.schema)
    parts = [
        f"CREATE TABLE IF NOT EXISTS {catalog_table(tables, spec.name)} (\n{columns}\n)",
        "USING DELTA",
        f"COMMENT {databricks_literal(spec.comment)}",
        f"TBLPROPERTIES ({databricks_literal(VERSION_PROPERTY)} = {databricks_literal(str(TABLES_VERSION))})",
    ]
    if spec.cluster_by:
        parts.append(f"CLUSTER BY ({', '.join(f'`{column}`' for column in spec.cluster_by)})")
    return "\n".join(parts)


def constraint_statements(spec: TableSpec, tables: str, have: Collection[str] = ()) -> list[str]:
    """Return the statements that add a table's constraints, except the constraints named in `have`."""
    table = catalog_table(tables, spec.name)
    return [
        f"ALTER TABLE {table} ADD CONSTRAINT `{name}` CHECK ({expression})"
        for name, expression in spec.constraints.items()
        if name not in have
    ]


def catalog_table(tables: str, name: str) -> str:
    """Return a table's full name, quoted.

    Examples:
        >>> catalog_table("my-catalog.pid_quota", "broker_status")
        '`my-catalog`.`pid_quota`.`broker_status`'
    """
    return ".".join(f"`{part}`" for part in (*tables.split("."), name))


def _column(column: pa.Field) -> str:
    required = "" if column.nullable else " NOT NULL"
    comment = (column.metadata or {}).get(b"comment", b"").decode()
    return f"`{column.name}` {spark_type(column.type)}{required} COMMENT {databricks_literal(comment)}"


def databricks_literal(value: object) -> str:
    r"""Return a string, number, bool, aware datetime, None or a list as a Databricks SQL literal.

    Examples:
        >>> print(databricks_literal("it's"), databricks_literal(datetime(2026, 1, 15, tzinfo=timezone.utc)))
        'it\'s' TIMESTAMP '2026-01-15T00:00:00+00:00'
        >>> databricks_literal([None, True, 7, 0.01])
        'array(NULL, TRUE, 7, 0.01D)'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(timezone.utc).isoformat()}'"
    if isinstance(value, list | tuple):
        return f"array({', '.join(map(databricks_literal, value))})"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def deltalake_literal(value: object) -> str:
    """Return a string or an aware datetime as a literal for `deltalake`.

    Examples:
        >>> print(deltalake_literal("o'neill"), deltalake_literal(datetime(2026, 1, 15, 12, tzinfo=timezone.utc)))
        'o''neill' '2026-01-15T12:00:00+00:00'
    """
    text = value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"


def with_literals(statement: str, values: Mapping[str, object], literal: Callable[[object], str]) -> str:
    """Return a statement with its `:name` parameter markers replaced by literals.

    Examples:
        >>> with_literals("SELECT :a, ':b', x::INT", {"a": "its"}, databricks_literal)
        "SELECT 'its', ':b', x::INT"
    """
    return MARKER.sub(lambda marker: literal(values[marker[1]]) if marker[1] in values else marker[0], statement)


def insert_statement(table: str, names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return the Databricks SQL that appends rows. Columns that a row lacks are null."""
    values = (f"({', '.join(databricks_literal(row.get(name)) for name in names)})" for row in rows)
    return " ".join(["INSERT INTO", table, f"({', '.join(names)})", "VALUES", ", ".join(values)])


def merge_statement(
    spec: TableSpec,
    table: str,
    keys: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    remove: Iterable[Mapping[str, object]],
) -> str:
    """Return the Databricks SQL of `TableStore.merge`."""
    columns = [(column.name, spark_type(column.type)) for column in spec.schema]
    source = " UNION ALL ".join(
        "SELECT "
        + ", ".join(f"CAST({databricks_literal(row.get(name))} AS {kind}) AS {name}" for name, kind in columns)
        + f", {databricks_literal(removed)} AS removed"
        for removed, some in ((False, rows), (True, remove))
        for row in some
    )
    names = [name for name, _ in columns]
    return _MERGE.format(
        table=table,
        source=source,
        same=" AND ".join(f"old.{key} <=> new.{key}" for key in keys),
        changes=", ".join(f"{name} = new.{name}" for name in names if name not in keys),
        names=", ".join(names),
        values=", ".join(f"new.{name}" for name in names),
    ).strip()

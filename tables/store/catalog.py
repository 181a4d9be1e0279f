"""Creates, describes and maintains the tables of a catalog, by SQL."""

from collections.abc import Mapping
from datetime import datetime

from tables.schema.ddl import (
    catalog_table,
    column_statements,
    constraint_statements,
    create_statement,
    databricks_literal,
)
from tables.schema.specs import TABLES, VERSION_PROPERTY, TableSpec
from tables.store.engines import Engine
from tables.store.facts import ColumnFacts, TableFacts
from tables.store.migration import require_version
from tables.store.retention import CLOSED, LeaseAge, OldRows, keep_from, old_rows, replaced_quotas
from tables.store.upkeep import Upkeep, UpkeepPlan

_FACTS = "SELECT count(*) AS row_count, {oldest} AS oldest, {newest} AS newest FROM {table}"
_COUNT = "SELECT count(*) AS row_count FROM {table} WHERE {condition}"
_DELETE = "DELETE FROM {table} WHERE {condition}"
_LEASES = """
SELECT lease_id, max(recorded_at) AS newest, max(CASE WHEN state IN ({closed}) THEN 1 ELSE 0 END) AS is_closed
FROM {table} WHERE lease_id IS NOT NULL GROUP BY lease_id
HAVING min(recorded_at) < {before}
"""
_SEVERAL = """
SELECT entity_name, max(updated_at) AS newest FROM {table} GROUP BY entity_name HAVING count(*) > 1
"""


def existing_tables(engine: Engine, tables: str) -> list[str]:
    """Return which of our tables exist.

    Raises:
        CatalogError: If the catalog refuses.
    """
    schema = ".".join(f"`{part}`" for part in tables.split("."))
    there = {str(row.get("tableName", "")) for row in engine.execute(f"SHOW TABLES IN {schema}").records()}
    return [name for name in TABLES if name in there]


def create(engine: Engine, tables: str, spec: TableSpec, *, there: bool) -> int:
    """Create a table, or add what one of an earlier version lacks.

    Args:
        engine: Of the catalog.
        tables: `catalog.schema`.
        spec: Of the table.
        there: Whether it exists.

    Returns:
        Number of statements that changed something.

    Raises:
        CatalogError: If the catalog refuses.
        TableVersionError: If a newer version created the table.
    """
    statements = []
    if there:
        require_version(str(_properties(engine, tables, spec).get(VERSION_PROPERTY, "0")), f"{tables}.{spec.name}")
        columns = [column.name for column in column_facts(engine, tables, spec)]
        statements += column_statements(spec, tables, columns)
    else:
        statements.append(create_statement(spec, tables))
    for statement in statements:
        engine.execute(statement)
    have = [name.removeprefix("delta.constraints.") for name in _properties(engine, tables, spec)]
    constraints = constraint_statements(spec, tables, have)
    for statement in constraints:
        engine.execute(statement)
    return len(statements) + len(constraints)


def facts(engine: Engine, tables: str, spec: TableSpec) -> TableFacts:
    """Return a table's size and contents; raises `CatalogError` if the catalog refuses."""
    table = catalog_table(tables, spec.name)
    (detail,) = engine.execute(f"DESCRIBE DETAIL {table}").records()
    (newest_commit,) = engine.execute(f"DESCRIBE HISTORY {table} LIMIT 1").records()
    oldest, newest = "NULL", "NULL"
    if spec.time_column:
        oldest, newest = f"min(`{spec.time_column}`)", f"max(`{spec.time_column}`)"
    (counted,) = engine.execute(_FACTS.format(oldest=oldest, newest=newest, table=table)).records()
    return TableFacts(
        spec.name,
        newest_commit["version"],
        counted["row_count"],
        detail["numFiles"],
        detail["sizeInBytes"],
        counted["oldest"],
        counted["newest"],
    )


def column_facts(engine: Engine, tables: str, spec: TableSpec) -> list[ColumnFacts]:
    """Return a table's columns, in order; raises `CatalogError` if the catalog refuses."""
    required = {column.name for column in spec.schema if not column.nullable}
    columns = []
    for row in engine.execute(f"DESCRIBE TABLE {catalog_table(tables, spec.name)}").records():
        if not row["col_name"] or row["col_name"].startswith("#"):
            # Partitioning and clustering follow.
            break
        nullable = row["col_name"] not in required
        columns.append(ColumnFacts(row["col_name"], row["data_type"], nullable, row.get("comment") or ""))
    return columns


def keep_up(engine: Engine, tables: str, spec: TableSpec, plan: UpkeepPlan, now: datetime) -> Upkeep:
    """Delete expired rows, compact and vacuum one table, as `tables.store.upkeep.keep_up` does for path tables.

    Raises:
        CatalogError: If the catalog refuses.
    """
    table = catalog_table(tables, spec.name)
    before = facts(engine, tables, spec)
    rows = _too_old(engine, table, spec, plan.days, now)
    if plan.dry_run:
        unneeded = engine.execute(f"VACUUM {table} RETAIN {plan.vacuum_hours} HOURS DRY RUN").rows
        return Upkeep(before, before, _count(engine, table, rows), None, len(unneeded), None)
    deleted = 0
    if rows:
        answer = engine.execute(_DELETE.format(table=table, condition=rows.as_text(databricks_literal)))
        deleted = int(answer.rows[0][0]) if answer.rows else 0
    engine.execute(f"OPTIMIZE {table}")
    engine.execute(f"VACUUM {table} RETAIN {plan.vacuum_hours} HOURS")
    engine.execute(f"ANALYZE TABLE {table} COMPUTE STATISTICS")
    return Upkeep(before, facts(engine, tables, spec), deleted, None, None, None)


def _properties(engine: Engine, tables: str, spec: TableSpec) -> dict[str, object]:
    rows = engine.execute(f"SHOW TBLPROPERTIES {catalog_table(tables, spec.name)}").rows
    return {str(key): value for key, value in rows}


def _count(engine: Engine, table: str, rows: OldRows | None) -> int:
    if rows is None:
        return 0
    (counted,) = engine.execute(_COUNT.format(table=table, condition=rows.as_text(databricks_literal))).records()
    return int(counted["row_count"])


def _too_old(engine: Engine, table: str, spec: TableSpec, days: Mapping[str, int], now: datetime) -> OldRows | None:
    if spec.name == "producer_id_quotas":
        several = engine.execute(_SEVERAL.format(table=table).strip()).records()
        return replaced_quotas({row["entity_name"]: row["newest"] for row in several})
    before = keep_from(now, days[spec.name]) if spec.time_column else None
    if before is None:
        return None
    leases: list[LeaseAge] = []
    if "lease_id" in spec.schema.names:
        closed = ", ".join(f"'{state}'" for state in CLOSED)
        asked = _LEASES.format(table=table, closed=closed, before=databricks_literal(before)).strip()
        found = engine.execute(asked).records()
        leases = [LeaseAge(row["lease_id"], row["newest"], bool(row["is_closed"])) for row in found]
    return old_rows(spec, before, leases)

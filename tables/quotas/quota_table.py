"""Sets, deletes and reads quotas: one row per entity, written by MERGE."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tables.catalog import engines
from tables.commits import leaving_old_log, retry_conflicts
from tables.delta import create_missing, is_catalog, open_table, row_schema, table_path
from tables.errors import NoSuchQuotaError, TableError, first_line
from tables.quotas import quota_catalog
from tables.quotas.quota_entry import QuotaEntry, entity_words
from tables.quotas.quota_rows import entries_in_force

if TYPE_CHECKING:
    from deltalake.table import TableMerger

_TABLE = "producer_id_quotas"
_ALL = "SELECT * FROM producer_id_quotas"
_SAME_ENTITY = "old.entity_type = new.entity_type AND old.entity_name IS NOT DISTINCT FROM new.entity_name"


def set_quota(tables: str, entry: QuotaEntry) -> None:
    """Set the quota of a user, or the default; creates the table if it is missing.

    Raises:
        InvalidQuotaError: If a number is out of range.
        CatalogError: If the tables are in a catalog that refuses.
        TableError: If the table can't be written.
    """
    set_quotas(tables, [entry])


def set_quotas(tables: str, entries: Sequence[QuotaEntry], remove: Sequence[str | None] = ()) -> None:
    """Set the quotas of several entities, and delete those of others, atomically; raises as `set_quota`."""
    for entry in entries:
        _ = entry.allowance
    if is_catalog(tables):
        with engines.engine(tables) as engine:
            quota_catalog.merge(engine, entries, remove)
        return
    create_missing(tables)
    rows = [*map(asdict, entries), *({"entity_name": name} for name in remove)]
    _merge(
        tables,
        rows,
        lambda merge: (
            merge.when_matched_delete("new.producer_ids_rate IS NULL")
            .when_matched_update_all("new.producer_ids_rate IS NOT NULL")
            .when_not_matched_insert_all("new.producer_ids_rate IS NOT NULL")
        ),
    )


def delete_quota(tables: str, entity_name: str | None) -> None:
    """Delete the quota of a user, or the default.

    Raises:
        NoSuchQuotaError: If there is no such quota.
        CatalogError: If the tables are in a catalog that refuses.
        TableError: If the table can't be written.
    """
    # Invalid rows can be deleted, too.
    existing = next((row for row in _rows(tables) if row["entity_name"] == entity_name), None)
    if existing is None:
        msg = f"{entity_words(entity_name)} has no quota to delete. See `pid-quota quotas --describe`"
        raise NoSuchQuotaError(msg)
    if is_catalog(tables):
        with engines.engine(tables) as engine:
            quota_catalog.delete(engine, entity_name)
        return
    _merge(tables, [{"entity_name": entity_name}], lambda merge: merge.when_matched_delete())


def quotas_in_force(tables: str) -> list[QuotaEntry]:
    """Return the quotas in force, the default first, then by name.

    Raises:
        CatalogError: If the tables are in a catalog that refuses.
        TableError: If the table is missing or can't be read.
    """
    return validated_quotas(tables)[0]


def validated_quotas(tables: str) -> tuple[list[QuotaEntry], list[str]]:
    """Return the quotas in force, and what is wrong with invalid rows; raises as `quotas_in_force`."""
    entries, faults = entries_in_force(_rows(tables))
    return sorted(entries, key=lambda entry: (entry.entity_name is not None, entry.entity_name or "")), faults


def _rows(tables: str) -> list[dict[str, Any]]:
    if is_catalog(tables):
        with engines.engine(tables) as engine:
            return quota_catalog.rows(engine)
    from deltalake import QueryBuilder

    # Not by `to_pyarrow_table`: its threads run Python, and one that outlives the command aborts the process.
    found = QueryBuilder().register(_TABLE, open_table(tables, _TABLE)).execute(_ALL)
    rows: list[dict[str, Any]] = pa.table(found.read_all()).to_pylist()
    return rows


def _merge(tables: str, entities: Sequence[Mapping[str, Any]], clauses: "Callable[[TableMerger], TableMerger]") -> None:
    from deltalake.exceptions import DeltaError

    rows = [{"entity_type": "user", **entity} for entity in entities]
    # One that is only named has no rate.
    schema = pa.schema([field.with_nullable(True) for field in row_schema(_TABLE)])
    source = pa.Table.from_pylist(rows, schema=schema)

    def commit() -> None:
        table = open_table(tables, _TABLE)
        clauses(table.merge(source, _SAME_ENTITY, "new", "old", **leaving_old_log())).execute()

    try:
        retry_conflicts(commit)
    except (DeltaError, OSError) as error:
        place = table_path(tables, _TABLE)
        msg = f"can't write {place}: {first_line(error)}. Check the folder given by --tables"
        raise TableError(msg) from error

"""Quotas in a catalog, by SQL."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tables.quotas.quota_entry import QuotaEntry
from tables.schema.ddl import databricks_literal
from tables.store.engines import Engine

_ROWS = "SELECT * FROM producer_id_quotas ORDER BY updated_at"
_DELETE = "DELETE FROM producer_id_quotas WHERE entity_type = 'user' AND entity_name <=> {entity_name}"
_MERGE = """
MERGE INTO producer_id_quotas AS old
USING ({source}) AS new
ON old.entity_type = new.entity_type AND old.entity_name <=> new.entity_name
WHEN MATCHED AND new.producer_ids_rate IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET
    producer_ids_rate = new.producer_ids_rate, producer_ids_burst = new.producer_ids_burst,
    updated_at = new.updated_at, updated_by = new.updated_by
WHEN NOT MATCHED AND new.producer_ids_rate IS NOT NULL
    THEN INSERT (entity_type, entity_name, producer_ids_rate, producer_ids_burst, updated_at, updated_by)
    VALUES (
        new.entity_type, new.entity_name, new.producer_ids_rate, new.producer_ids_burst, new.updated_at, new.updated_by
    )
"""
_SOURCE = (
    "SELECT 'user' AS entity_type, CAST({entity_name} AS STRING) AS entity_name, "
    "CAST({producer_ids_rate} AS DOUBLE) AS producer_ids_rate, "
    "CAST({producer_ids_burst} AS DOUBLE) AS producer_ids_burst, CAST({updated_at} AS TIMESTAMP) AS updated_at, "
    "CAST({updated_by} AS STRING) AS updated_by"
)


def merge(engine: Engine, entries: Sequence[QuotaEntry], remove: Sequence[str | None] = ()) -> None:
    """Set quotas, and delete those of other entities, atomically, in one statement.

    Raises:
        CatalogError: If it fails.
    """
    nothing = dict.fromkeys(("producer_ids_rate", "producer_ids_burst", "updated_at", "updated_by"))
    rows = [*map(asdict, entries), *({"entity_name": name, **nothing} for name in remove)]
    literals = ({name: databricks_literal(value) for name, value in row.items()} for row in rows)
    engine.execute(_MERGE.format(source=" UNION ALL ".join(_SOURCE.format(**row) for row in literals)).strip())


def delete(engine: Engine, entity_name: str | None) -> None:
    """Delete a user's quota, or the default (None); raises as `merge`."""
    engine.execute(_DELETE.format(entity_name=databricks_literal(entity_name)))


def rows(engine: Engine) -> list[dict[str, Any]]:
    """Return the rows, oldest first; raises as `merge`."""
    return engine.execute(_ROWS).records()

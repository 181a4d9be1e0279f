"""Creates a stream's tables, unless its checkpoint shows that they existed and are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.checkpoint.table_ids import NEEDED, path_ids, require_same, save_table_ids
from tables.schema.ddl import catalog_table
from tables.schema.specs import TABLES
from tables.schema.views import view_statements
from tables.store import catalog
from tables.store.engines import SparkEngine, quoted
from tables.store.path_tables import create_missing, is_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from streaming.pipeline import StreamOptions


def prepare_path_tables(tables: str, checkpoint: str, *, new_tables: bool) -> None:
    """Create missing path tables, unless the checkpoint shows that they existed.

    Args:
        tables: Their folder; a catalog is left to `make_relations`.
        checkpoint: Folder of the stream's checkpoint.
        new_tables: Whether a running stream may continue with other tables.

    Raises:
        CheckpointError: If the checkpoint has batches, and a table is missing or was replaced.
        TableError: If the tables can't be read or created.
    """
    if not is_catalog(tables):
        require_same(tables, checkpoint, lambda: path_ids(tables), new_tables=new_tables)
        create_missing(tables)


def make_relations(spark: SparkSession, options: StreamOptions, *, new_tables: bool) -> None:
    """Create or upgrade a catalog's tables, and replace the views, which hold this stream's window.

    Raises:
        CheckpointError: As `prepare_path_tables`.
        CatalogError: If the catalog refuses.
    """
    engine = SparkEngine(spark)
    require_same(
        options.tables, options.checkpoint, lambda: _catalog_ids(engine, options.tables), new_tables=new_tables
    )
    there = catalog.existing_tables(engine, options.tables)
    for name, spec in TABLES.items():
        catalog.create(engine, options.tables, spec, there=name in there)
    for statement in (f"USE {quoted(options.tables)}", *view_statements(options.config)):
        engine.execute(statement)


def note_tables(spark: SparkSession, options: StreamOptions) -> None:
    """Record the ids of the stream's tables in its checkpoint.

    Raises:
        CheckpointError: If they can't be written.
        TableError: If a path table can't be read.
        CatalogError: If the catalog refuses.
    """
    tables = options.tables
    save_table_ids(
        options.checkpoint, _catalog_ids(SparkEngine(spark), tables) if is_catalog(tables) else path_ids(tables)
    )


def _catalog_ids(engine: SparkEngine, tables: str) -> Mapping[str, str]:
    there = catalog.existing_tables(engine, tables)
    details = {
        name: engine.execute(f"DESCRIBE DETAIL {catalog_table(tables, name)}").records()[0]
        for name in NEEDED
        if name in there
    }
    return {name: str(detail["id"]) for name, detail in details.items()}

"""A catalog's quota table that is recreated while a stream runs: it has no quotas, and must not lift all of them."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.batch.quotas_in_force import TABLE, read_quotas
from streaming.errors import CheckpointError
from tables.schema.ddl import create_statement
from tables.schema.specs import TABLES
from tables.store.catalog import CatalogStore
from tables.store.engines import SparkEngine

pytestmark = pytest.mark.slow
SCHEMA = "spark_catalog.recreated"


def create(spark: SparkSession) -> None:
    spark.sql(create_statement(TABLES[TABLE], SCHEMA))


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Iterator[CatalogStore]:
    spark.sql(f"CREATE SCHEMA {SCHEMA} LOCATION '{tmp_path}'")
    create(spark)
    yield CatalogStore(SCHEMA, SparkEngine(spark))
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_a_recreated_table_ends_the_batch_and_a_changed_one_does_not(spark: SparkSession, store: CatalogStore) -> None:
    begun_with = store.table_id(TABLE)
    row = {
        "entity_type": "user",
        "entity_name": None,
        "producer_ids_rate": 20.0,
        "updated_at": datetime(2026, 1, 1, tzinfo=timezone.utc),
    }
    store.append(TABLE, [row])
    assert read_quotas(spark, SCHEMA, begun_with).find("User:alice").producer_ids_rate == 20.0

    spark.sql(f"DROP TABLE {SCHEMA}.{TABLE}")
    create(spark)

    with pytest.raises(CheckpointError, match=rf"{TABLE} in {SCHEMA} is not the one that the stream started with"):
        read_quotas(spark, SCHEMA, begun_with)

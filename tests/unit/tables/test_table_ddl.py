"""The SQL that makes the tables in a catalog, read as Databricks reads it."""

import pytest
import sqlglot
from sqlglot import expressions as exp

from tables.schema.ddl import create_statement, spark_type
from tables.schema.specs import TABLES, TableSpec

TABLES_OF = "my-catalog.pid_quota"


def parsed(statement: str) -> exp.Expr:
    return sqlglot.parse_one(statement, read="databricks", error_level=sqlglot.ErrorLevel.RAISE)


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_a_table_is_clustered_by_columns_that_it_has_statistics_of(spec: TableSpec) -> None:
    clustered = parsed(create_statement(spec, TABLES_OF)).find(exp.ClusterProperty)
    names = [column.name for column in clustered.expressions] if clustered else []
    assert names == list(spec.cluster_by)
    assert len(names) <= 4
    assert set(names) <= set(spec.schema.names[:32])
    # No more can be said of it by minimum and maximum.
    assert not any(spark_type(spec.schema.field(name).type).startswith(("ARRAY", "MAP", "BOOLEAN")) for name in names)


def test_every_table_whose_rows_grow_old_has_the_column_that_says_so() -> None:
    for spec in TABLES.values():
        if spec.time_column:
            assert spark_type(spec.schema.field(spec.time_column).type) == "TIMESTAMP"
            assert spec.keep_days == 0 or spec.keep_days >= spec.least_days >= 1
    assert TABLES["throttle_decisions"].least_days >= 2

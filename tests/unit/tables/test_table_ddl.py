"""The SQL that makes the tables in a catalog, read as Databricks reads it."""

import pytest
import sqlglot
from sqlglot import expressions as exp

from tables.schema.ddl import constraint_statements, create_statement, spark_type
from tables.schema.specs import TABLES, TableSpec

TABLES_OF = "my-catalog.pid_quota"


def parsed(statement: str) -> exp.Expr:
    return sqlglot.parse_one(statement, read="databricks", error_level=sqlglot.ErrorLevel.RAISE)


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_a_table_gets_its_columns_types_and_comments(spec: TableSpec) -> None:
    made = parsed(create_statement(spec, TABLES_OF))

    assert isinstance(made, exp.Create)
    assert made.args["exists"]
    table = made.find(exp.Table)
    assert table
    assert (table.catalog, table.db, table.name) == ("my-catalog", "pid_quota", spec.name)
    columns = list(made.this.find_all(exp.ColumnDef))
    assert [column.name for column in columns] == spec.schema.names
    for column, field in zip(columns, spec.schema, strict=True):
        assert column.kind == exp.DataType.build(spark_type(field.type), dialect="databricks")
        comment = column.find(exp.CommentColumnConstraint)
        assert comment
        assert comment.this.this == field.metadata[b"comment"].decode()
        assert (column.find(exp.NotNullColumnConstraint) is None) == field.nullable
    comment = made.find(exp.SchemaCommentProperty)
    assert comment
    assert comment.this.this == spec.comment


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


def test_constraints_are_added_unless_the_table_has_them() -> None:
    spec = TABLES["producer_id_quotas"]
    statements = constraint_statements(spec, TABLES_OF)
    assert len(statements) == len(spec.constraints) > 0
    assert all(isinstance(parsed(statement), exp.Alter) for statement in statements)
    assert constraint_statements(spec, TABLES_OF, list(spec.constraints)) == []

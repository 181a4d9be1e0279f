"""The rights that a writer of a catalog needs."""

from collections.abc import Callable
from dataclasses import dataclass

from tables.schema.ddl import catalog_table
from tables.store.engines import Engine, quoted

_TRIED = "pid_quota_check"
"""Name of the table that a test creates and drops. The name of the test's view begins with it."""


@dataclass(frozen=True)
class Right:
    """A right to test.

    Attributes:
        name: What the right allows.
        attempt: Uses the right, and raises an error if the right is missing.
        remedy: Statement that grants the right.
    """

    name: str
    attempt: Callable[[], object]
    remedy: str


def catalog_rights(engine: Engine, tables: str) -> list[Right]:
    """Return the rights on a catalog's schema. Each right depends on the rights before it."""
    catalog, _, _ = tables.partition(".")
    schema, table = quoted(tables), catalog_table(tables, _TRIED)
    view = catalog_table(tables, f"{_TRIED}_view")

    def run(*statements: str) -> Callable[[], None]:
        def attempt() -> None:
            for statement in statements:
                engine.execute(statement)

        return attempt

    return [
        Right(
            "use the catalog and the schema",
            run(f"USE {schema}"),
            f"GRANT USE CATALOG ON CATALOG {quoted(catalog)} TO WHO, and GRANT USE SCHEMA ON SCHEMA {schema} TO WHO",
        ),
        Right(
            "list the tables and views",
            run(f"SHOW TABLES IN {schema}", f"SHOW VIEWS IN {schema}"),
            f"GRANT USE SCHEMA ON SCHEMA {schema} TO WHO",
        ),
        Right(
            "create and drop a table",
            run(f"CREATE TABLE {table} (tried INT) USING DELTA", f"DROP TABLE {table}"),
            f"GRANT CREATE TABLE ON SCHEMA {schema} TO WHO",
        ),
        Right(
            "create and drop a view",
            run(f"CREATE VIEW {view} AS SELECT 1 AS tried", f"DROP VIEW {view}"),
            f"GRANT CREATE TABLE ON SCHEMA {schema} TO WHO",
        ),
    ]

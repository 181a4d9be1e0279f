"""A FAKE SQL warehouse: takes what databricks-sql-connector's `connect` takes, and answers by DuckDB.

No warehouse can run here. Statements are read as Databricks SQL by sqlglot, so what it can't parse fails here too; what
a warehouse would refuse for other reasons (types, grants) is not shown. The connector's own errors are raised.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import sqlglot
from databricks import sql
from databricks.sql.exc import ServerOperationError

from tables.schema.ddl import spark_ddl
from tables.schema.specs import TABLES

if TYPE_CHECKING:
    import pytest

HOST, HTTP_PATH, TOKEN = "https://warehouse.invalid", "/sql/1.0/warehouses/fake", "-".join(["dapi", "not", "real"])
CATALOG, SCHEMA = "prod", "pid_quota"
LAST_WRITE = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)


Said = tuple[Sequence[str], Sequence[tuple[Any, ...]]]
"""Names of columns, and rows."""


class FakeWarehouse:
    """The tables of one schema, empty; `statements` is what it was asked."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.connected_with: dict[str, Any] = {}
        self.open_connections = 0
        self._duck = duckdb.connect(":memory:")
        self._duck.execute("SET TimeZone = 'UTC'")
        self._duck.execute(f"ATTACH ':memory:' AS {CATALOG}")
        self._duck.execute(f"CREATE SCHEMA {CATALOG}.{SCHEMA}")
        self._duck.execute(f"USE {CATALOG}.{SCHEMA}")
        self._duck.execute("CREATE MACRO unix_millis(t) AS epoch_ms(t)")
        for name in TABLES:
            self._duck.execute(translated(f"CREATE TABLE {name} ({spark_ddl(name)})"))

    def connect(
        self, server_hostname: str, http_path: str, access_token: str | None = None, **more: Any
    ) -> "Connection":
        """Stand in for `databricks.sql.connect`."""
        self.connected_with = {"host": server_hostname, "path": http_path, "token": access_token, **more}
        self.open_connections += 1
        return Connection(self)

    def insert(self, table: str, rows: pa.Table) -> None:
        self._duck.from_arrow(rows).insert_into(f"{CATALOG}.{SCHEMA}.{table}")

    def run(self, statement: str, parameters: object) -> Said:
        self.statements.append(statement)
        if statement.startswith("DESCRIBE HISTORY"):
            return (("version", "timestamp"), [(1, LAST_WRITE)])
        try:
            result = self._duck.execute(translated(statement), parameters)
        except (duckdb.Error, sqlglot.ParseError) as error:
            msg = f"[PARSE_SYNTAX_ERROR] {error}"
            raise ServerOperationError(msg) from error
        return [column[0] for column in result.description or ()], result.fetchall()


def translated(statement: str) -> str:
    return sqlglot.transpile(statement, read="databricks", write="duckdb")[0]


class Connection:
    def __init__(self, warehouse: FakeWarehouse) -> None:
        self._warehouse = warehouse

    @contextmanager
    def cursor(self) -> Iterator["_Cursor"]:
        yield _Cursor(self._warehouse)

    def close(self) -> None:
        self._warehouse.open_connections -= 1


class _Cursor:
    def __init__(self, warehouse: FakeWarehouse) -> None:
        self._warehouse = warehouse
        self.description: list[tuple[str]] | None = None
        self._rows: Sequence[tuple[Any, ...]] = []

    def execute(self, operation: str, parameters: object = None) -> None:
        columns, self._rows = self._warehouse.run(operation, parameters or None)
        self.description = [(name,) for name in columns] or None

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        return self._rows


def use(monkeypatch: "pytest.MonkeyPatch") -> FakeWarehouse:
    """Let commands reach a fake warehouse."""
    warehouse = FakeWarehouse()
    monkeypatch.setattr(sql, "connect", warehouse.connect)
    for name, value in (("HOST", HOST), ("HTTP_PATH", HTTP_PATH), ("TOKEN", TOKEN)):
        monkeypatch.setenv(f"DATABRICKS_{name}", value)
    return warehouse

"""A fake SQL warehouse for databricks-sql-connector, which answers from DuckDB.

No warehouse can run here. Statements are read as Databricks SQL by sqlglot, so what it can't parse fails here too; what
a warehouse would refuse for other reasons (types, grants) is not shown. The connector's own errors are raised.
"""

import re
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
_VIEW = re.compile(r"CREATE VIEW .*?^AS (.*)|ALTER VIEW \S+ AS (.*)", re.DOTALL | re.MULTILINE)
LAST_WRITE = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)


Said = tuple[Sequence[str], Sequence[tuple[Any, ...]]]
"""Names of columns, and rows."""


class FakeWarehouse:
    """The tables of one schema, empty; `statements` is what it was asked, `changes` those that change a table.

    It answers statements on metadata and upkeep itself. The tables in `hidden` are not there.
    """

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.changes: list[str] = []
        self.hidden: set[str] = set()
        self.properties: dict[str, dict[str, str]] = {}
        self.views: set[str] = set()
        self.connected_with: dict[str, Any] = {}
        self.open_connections = 0
        self._duck = duckdb.connect(":memory:")
        self._duck.execute("SET TimeZone = 'UTC'")
        self._duck.execute(f"ATTACH ':memory:' AS {CATALOG}")
        self._duck.execute(f"CREATE SCHEMA {CATALOG}.{SCHEMA}")
        self._duck.execute(f"USE {CATALOG}.{SCHEMA}")
        self._duck.execute("CREATE MACRO unix_millis(t) AS epoch_ms(t)")
        self._duck.execute("CREATE MACRO timestamp_millis(ms) AS make_timestamptz(1000 * ms)")
        self._duck.execute("CREATE MACRO explode(list) AS unnest(list)")
        for name in TABLES:
            self._duck.execute(translated(f"CREATE TABLE {name} ({spark_ddl(name)})"))

    def connect(
        self, server_hostname: str, http_path: str, access_token: str | None = None, **more: Any
    ) -> "Connection":
        self.connected_with = {"host": server_hostname, "path": http_path, "token": access_token, **more}
        self.open_connections += 1
        return Connection(self)

    def insert(self, table: str, rows: pa.Table) -> None:
        self._duck.from_arrow(rows).insert_into(f"{CATALOG}.{SCHEMA}.{table}")

    def run(self, statement: str, parameters: object) -> Said:
        self.statements.append(statement)
        words = statement.split()
        if words[0] in ("INSERT", "MERGE", "DELETE"):
            self.changes.append(statement)
        elif words[0] in ("OPTIMIZE", "VACUUM", "ANALYZE", "ALTER", "CREATE", "COMMENT", "DROP"):
            return self._change(statement)
        elif (said := self._metadata(statement)) is not None:
            return said
        return self._answer(statement, parameters)

    def _change(self, statement: str) -> Said:
        # sqlglot refuses what it can't parse, as a warehouse does. It takes OPTIMIZE and VACUUM for plain commands, and
        # can't parse metric views.
        if "$$" not in statement:
            sqlglot.parse_one(statement, read="databricks", error_level=sqlglot.ErrorLevel.RAISE)
        self.changes.append(statement)
        name = next((word for word in statement.split() if "`" in word), "")
        made = _VIEW.match(statement)
        if made:
            self.views.add(name.split(".")[-1].strip("`"))
            if "$$" not in statement:
                self._duck.execute(translated(f"CREATE OR REPLACE VIEW {name} AS {made[1] or made[2]}"))
        if statement.startswith("DROP"):
            # Of what CREATE TABLE makes it keeps only the statement.
            self._duck.execute(translated(re.sub(r"DROP (\w+) ", r"DROP \1 IF EXISTS ", statement)))
        if "TBLPROPERTIES (" in statement and "TABLE IF NOT EXISTS" not in statement:
            pairs = re.findall(r"'([^']*)' = '([^']*)'", re.findall(r"TBLPROPERTIES \((.*)\)", statement)[0])
            self.properties.setdefault(name, {}).update(pairs)
        self.hidden -= {name for name in self.hidden if statement.startswith("CREATE") and f"`{name}`" in statement}
        return (["path"], [("a file",)]) if "DRY" in statement.split() else ([], [])

    def _metadata(self, statement: str) -> Said | None:
        table = statement.split()[2] if statement.count(" ") > 1 else ""
        if statement.startswith("USE"):
            return [], []
        if statement.startswith("SHOW TABLES"):
            return ["database", "tableName"], [(SCHEMA, name) for name in TABLES if name not in self.hidden]
        if statement.startswith("SHOW VIEWS"):
            return ["namespace", "viewName", "isTemporary"], [(SCHEMA, name, False) for name in sorted(self.views)]
        if statement.startswith("SHOW TBLPROPERTIES"):
            return ["key", "value"], list(self.properties.get(table, {}).items())
        if statement.startswith("DESCRIBE HISTORY"):
            return ("version", "timestamp"), [(1 + sum(table in change for change in self.changes), LAST_WRITE)]
        if statement.startswith("DESCRIBE DETAIL"):
            return ["id", "numFiles", "sizeInBytes"], [(f"id of {table}", 7, 700)]
        if statement.startswith("DESCRIBE TABLE"):
            _, rows = self._answer(statement.replace(" TABLE", ""), None)
            about = [(row[0], "string", "a comment") for row in rows]
            return ["col_name", "data_type", "comment"], [*about, ("", "", ""), ("# Clustering", "", "")]
        return None

    def _answer(self, statement: str, parameters: object) -> Said:
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


def insert(warehouse: FakeWarehouse, name: str, *rows: dict[str, Any]) -> None:
    warehouse.insert(name, pa.Table.from_pylist(list(rows), schema=TABLES[name].schema))


def use(monkeypatch: "pytest.MonkeyPatch") -> FakeWarehouse:
    warehouse = FakeWarehouse()
    monkeypatch.setattr(sql, "connect", warehouse.connect)
    for name, value in (("HOST", HOST), ("HTTP_PATH", HTTP_PATH), ("TOKEN", TOKEN)):
        monkeypatch.setenv(f"DATABRICKS_{name}", value)
    return warehouse

"""Answers SQL over the Delta tables and the views of `sql/views`: DuckDB and `deltalake`, no JVM, nothing written."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jobs.errors import QueryError
from quota.config import QuotaConfig
from streaming.errors import TableError, TableNotFoundError
from streaming.tables import TABLES, is_catalog, open_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SETTINGS = "settings"
"""The one-row relation that the views take the time and the quota's window from."""


@dataclass(frozen=True)
class Answer:
    """What a query gave: column names, and rows of Python values in the same order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dictionary."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def query(tables: str, sql: str, now: datetime, config: QuotaConfig | None = None) -> Answer:
    """Answer one SELECT.

    Only the tables it needs are opened. The query can't reach files, the network or Python objects.

    Args:
        tables: Folder of the path tables.
        sql: One SELECT (or EXPLAIN, DESCRIBE, SHOW) over tables and views.
        now: What the views take for the present.
        config: Gives the window by which the views refill tokens; default, the defaults.

    Raises:
        QueryError: If the query is not one SELECT, or DuckDB refuses it.
        TableNotFoundError: If a table that it names is not there.
        TableError: If a table can't be read.
    """
    import duckdb

    if is_catalog(tables):
        msg = f"{tables} is a catalog, and this command reads path tables. Query it with Spark SQL or a SQL warehouse"
        raise QueryError(msg)
    options = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=options) as connection:
        missing: list[TableNotFoundError] = []
        try:
            _require_select(connection, sql)
            _prepare(connection, now, config or QuotaConfig())
            missing = _load(connection, tables, sql)
            _lock(connection)
            result = connection.execute(sql)
            columns = tuple(column[0] for column in result.description or ())
            return Answer(columns, tuple(result.fetchall()))
        except duckdb.Error as error:
            if missing:
                raise missing[0] from error
            reason = next(iter(str(error).splitlines()), "no reason given")
            msg = f"the query can't be answered: {reason}. Tables and views: {', '.join(relations())}"
            raise QueryError(msg) from error


@cache
def views() -> dict[str, str]:
    """Return the views that are shipped, name to SELECT."""
    folder = resources.files("sql").joinpath("views")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {file.name.removesuffix(".sql"): file.read_text(encoding="utf-8") for file in files}


def relations() -> list[str]:
    """Return what a query may name: tables, then views."""
    return [*TABLES, *views()]


def _require_select(connection: "DuckDBPyConnection", sql: str) -> None:
    from duckdb import StatementType

    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] not in (StatementType.SELECT, StatementType.EXPLAIN):
        found = ", ".join(kind.name for kind in kinds) or "none"
        msg = f"one SELECT is wanted, found {found}. This command only reads; put the query in quotes"
        raise QueryError(msg)


def _prepare(connection: "DuckDBPyConnection", now: datetime, config: QuotaConfig) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    # The one function that the views need and DuckDB names differently from Spark.
    connection.execute("CREATE MACRO unix_millis(t) AS epoch_ms(t)")
    connection.execute(
        f"CREATE TABLE {SETTINGS} AS SELECT "
        "$1::TIMESTAMPTZ AS now, $2::BIGINT AS window_ms, $3::DOUBLE AS burst_windows",
        [now, config.window_ms, config.burst_windows],
    )


def _load(connection: "DuckDBPyConnection", tables: str, sql: str) -> list[TableNotFoundError]:
    """Register the tables and views that a query mentions; returns those it may need that are not there."""
    missing = []
    if _mentioned(sql, ["show"]) and not _mentioned(sql, relations()):
        # SHOW TABLES: all there is.
        sql = " ".join(relations())
    wanted = _with_sources(sql)
    for name in _mentioned("\n".join([sql, *(views()[view] for view in wanted)]), TABLES):
        try:
            connection.register(name, _arrow(tables, name))
        except TableNotFoundError as error:
            # Perhaps the name is only an alias or a text in the query: DuckDB will tell.
            missing.append(error)
    if not missing:
        for name in wanted:
            connection.execute(f'CREATE VIEW "{name}" AS {views()[name]}')
    return missing


def _with_sources(text: str) -> list[str]:
    """Return the views that a text mentions, each after the views it reads."""
    ordered: list[str] = []
    for name in _mentioned(text, views()):
        ordered += [*_with_sources(views()[name]), name]
    return list(dict.fromkeys(ordered))


def _mentioned(text: str, names: Iterable[str]) -> list[str]:
    words = {word.lower() for word in re.findall(r"\w+", text)}
    return [name for name in names if name in words]


def _arrow(tables: str, name: str) -> Any:
    from deltalake.exceptions import DeltaError

    table = open_table(tables, name)
    try:
        return table.to_pyarrow_dataset()
    except (DeltaError, OSError) as error:
        msg = f"can't read table {name} in {tables}: {error}. Check the folder given by --tables"
        raise TableError(msg) from error


def _lock(connection: "DuckDBPyConnection") -> None:
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")

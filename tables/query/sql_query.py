"""Runs read-only SQL over the Delta tables and the views of `sql/views`.

Path tables are read by DuckDB and `deltalake`, without a JVM; a catalog's by `tables.store.engines`.
"""

import re
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from quota.config import QuotaConfig
from tables.errors import QueryError, TableNotFoundError
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS, mentioned, needed_views, views, with_views
from tables.store import engines
from tables.store.base import Answer
from tables.store.path_tables import is_catalog
from tables.store.scan import add_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_UNKNOWN_TABLE = re.compile(r"Table with name (\S+) does not exist")
_READING = ("select", "union", "except", "intersect", "describe")


def query(tables: str, sql: str, now: datetime, config: QuotaConfig | None = None) -> Answer:
    """Run one SELECT.

    Only the path tables it mentions are opened. It can't reach files, the network or Python objects.

    Args:
        tables: Folder of the path tables, or `catalog.schema`.
        sql: One SELECT (or EXPLAIN, DESCRIBE, SHOW) over tables and views.
        now: Present time of the views; a catalog uses its own clock.
        config: Window for the views' tokens; the defaults by default.

    Raises:
        QueryError: If the query is not one SELECT, or DuckDB refuses it.
        TableNotFoundError: If it names a table that does not exist.
        TableError: If a table can't be read.
        CatalogError: If the catalog can't be reached, or rejects the query.
    """
    config = config or QuotaConfig()
    return _of_catalog(tables, sql, config) if is_catalog(tables) else _of_paths(tables, sql, now, config)


def relations() -> list[str]:
    """Return the names of all tables, then of all views."""
    return [*TABLES, *views()]


def _of_catalog(tables: str, sql: str, config: QuotaConfig) -> Answer:
    try:
        import sqlglot
    except ImportError as error:
        msg = f"a query on {tables} is checked by sqlglot before it runs: pip install 'pid-quota[databricks]'"
        raise QueryError(msg) from error
    try:
        kinds = [statement.key for statement in sqlglot.parse(sql, read="databricks") if statement]
    except sqlglot.ParseError as error:
        msg = f"the query can't be read: {error.errors[0]['description']}. Put one SELECT in quotes"
        raise QueryError(msg) from error
    if len(kinds) != 1 or kinds[0] not in _READING:
        found = ", ".join(kinds) or "none"
        msg = f"expected one SELECT, found {found}. This command only reads; put the query in quotes"
        raise QueryError(msg)
    with engines.engine(tables) as engine:
        return engine.execute(with_views(sql.rstrip().rstrip(";"), config))


def _of_paths(tables: str, sql: str, now: datetime, config: QuotaConfig) -> Answer:
    import duckdb

    options: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=options) as connection:
        missing: list[TableNotFoundError] = []
        try:
            _require_select(connection, sql)
            prepare(connection, now, config)
            missing = _load(connection, tables, sql)
            lock(connection)
            result = connection.execute(sql)
            columns = tuple(column[0] for column in result.description or ())
            return Answer(columns, tuple(result.fetchall()))
        except duckdb.Error as error:
            if missing:
                raise missing[0] from error
            msg = f"the query can't be answered: {_reason(error)}"
            raise QueryError(msg) from error


def _reason(error: BaseException) -> str:
    """Return DuckDB's reason with what it suggests, without the query; of a table it may not know, all names."""
    reason = " ".join(str(error).split("\n\n")[0].split())
    unknown = _UNKNOWN_TABLE.search(reason)
    if unknown is None:
        return reason
    # DuckDB knows the tables of this query only.
    near = get_close_matches(unknown[1], relations(), n=1)
    return f"{unknown[0]}. " + (f"Did you mean {near[0]!r}?" if near else f"Tables and views: {', '.join(relations())}")


def _require_select(connection: "DuckDBPyConnection", sql: str) -> None:
    from duckdb import StatementType

    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] not in (StatementType.SELECT, StatementType.EXPLAIN):
        found = ", ".join(kind.name for kind in kinds) or "none"
        msg = f"expected one SELECT, found {found}. This command only reads; put the query in quotes"
        raise QueryError(msg)


def prepare(connection: "DuckDBPyConnection", now: datetime, config: QuotaConfig) -> None:
    """Set a connection's time zone, and define what the views need besides tables."""
    connection.execute("SET TimeZone = 'UTC'")
    # The only function of the views that DuckDB names differently from Spark.
    connection.execute("CREATE MACRO unix_millis(t) AS epoch_ms(t)")
    connection.execute(
        f"CREATE TABLE {SETTINGS} AS SELECT $1::TIMESTAMPTZ AS now, $2::BIGINT AS window_ms", [now, config.window_ms]
    )


def _load(connection: "DuckDBPyConnection", tables: str, sql: str) -> list[TableNotFoundError]:
    """Register the tables and views that a query mentions; return errors of missing ones."""
    missing = []
    if mentioned(sql, ["show"]) and not mentioned(sql, relations()):
        # SHOW TABLES lists everything.
        sql = " ".join(relations())
    wanted = needed_views(sql)
    for name in mentioned("\n".join([sql, *(views()[view] for view in wanted)]), TABLES):
        try:
            add_table(connection, tables, name)
        except TableNotFoundError as error:
            # The name may be only an alias or a text: DuckDB decides.
            missing.append(error)
    if not missing:
        for name in wanted:
            connection.execute(f'CREATE VIEW "{name}" AS {views()[name]}')
    return missing


def lock(connection: "DuckDBPyConnection") -> None:
    """Deny a connection's further statements files, the network and settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")

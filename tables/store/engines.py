"""Runs SQL on a catalog's tables: in a Databricks runtime's Spark session, elsewhere in a SQL warehouse."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from tables.errors import CatalogError, first_line, install_command
from tables.schema.ddl import databricks_literal, with_literals
from tables.store.commits import retry_conflicts
from tables.store.values import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from databricks.sql.client import Connection
    from pyspark.sql import SparkSession

RUNTIME = "DATABRICKS_RUNTIME_VERSION"
"""Environment variable that Databricks sets on its clusters."""

_SIGNING_IN = threading.Lock()
_NO_SCHEMA = ("SCHEMA_NOT_FOUND", "NO_SUCH_CATALOG", "CATALOG_NOT_FOUND")
_HOST, _HTTP_PATH, _TOKEN = "DATABRICKS_HOST", "DATABRICKS_HTTP_PATH", "DATABRICKS_TOKEN"
_WAREHOUSE, _CLIENT, _CLIENT_SECRET = "DATABRICKS_WAREHOUSE_ID", "DATABRICKS_CLIENT_ID", "DATABRICKS_CLIENT_SECRET"


class Engine(Protocol):
    """A runner of statements in Databricks SQL."""

    def execute(self, statement: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run one statement and return its rows. Retry after a conflict with another writer.

        The values of `:name` parameter markers are strings, numbers, aware datetimes or None.

        Raises:
            CatalogError: If the statement fails.
        """


def quoted(name: str) -> str:
    """Return a dotted name with each part in backquotes.

    Examples:
        >>> quoted("my-catalog.pid_quota")
        '`my-catalog`.`pid_quota`'
    """
    return ".".join(f"`{part.strip('`')}`" for part in name.split("."))


@dataclass(frozen=True)
class SparkEngine:
    """A runner of statements in a Spark session (classic or Spark Connect)."""

    spark: SparkSession

    def execute(self, statement: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a statement; see `Engine.execute`."""
        from pyspark.errors import PySparkException

        try:
            return retry_conflicts(lambda: self._answer(with_literals(statement, parameters or {}, databricks_literal)))
        except PySparkException as error:
            raise _failed(error) from error

    def _answer(self, statement: str) -> Answer:
        frame = self.spark.sql(statement)
        rows = (tuple(map(_of_host, row)) for row in frame.collect())
        return Answer(tuple(frame.columns), tuple(rows))


@dataclass(frozen=True)
class WarehouseEngine:
    """A runner of statements in a SQL warehouse. The caller closes the connection."""

    connection: Connection

    def execute(self, statement: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a statement; see `Engine.execute`."""
        from databricks.sql.exc import Error

        try:
            return retry_conflicts(lambda: self._answer(statement, dict(parameters or {})))
        except Error as error:
            raise _failed(error) from error

    def _answer(self, statement: str, parameters: dict[str, Any]) -> Answer:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            if not cursor.description:
                return Answer((), ())
            columns = tuple(column[0] for column in cursor.description)
            return Answer(columns, tuple(tuple(map(_aware, row)) for row in cursor.fetchall()))


class CatalogEngine:
    """A runner of statements with `tables` (`catalog.schema`) as current schema.

    It takes a Databricks runtime's session, elsewhere a SQL warehouse. It connects on first use, and again after an
    error.
    """

    def __init__(self, tables: str) -> None:
        self._tables = tables
        self._stack = ExitStack()
        self._engine: Engine | None = None

    def execute(self, statement: str, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run a statement; see `Engine.execute`."""
        if self._engine is None:
            self._engine = self._connected()
        try:
            return self._engine.execute(statement, parameters)
        except CatalogError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection if it is open."""
        self._engine = None
        self._stack.close()

    def _connected(self) -> Engine:
        if RUNTIME in os.environ:
            from pyspark.sql import SparkSession

            spark = SparkEngine(SparkSession.builder.getOrCreate())
            spark.execute(f"USE {quoted(self._tables)}")
            return spark
        connection = _connect(self._tables)
        self._stack.callback(connection.close)
        return WarehouseEngine(connection)


def _connect(tables: str) -> Connection:
    try:
        from databricks import sql
        from databricks.sql.exc import Error
    except ImportError as error:
        msg = f"{tables} needs a SQL warehouse's client: {install_command('databricks')}"
        raise CatalogError(msg) from error
    host, http_path = os.environ.get(_HOST, ""), os.environ.get(_HTTP_PATH, "")
    if not http_path and (warehouse := os.environ.get(_WAREHOUSE)):
        http_path = f"/sql/1.0/warehouses/{warehouse}"
    if not (host and http_path):
        missing = _HTTP_PATH if host else _HOST
        msg = (
            f"{tables} is reached by a SQL warehouse, but {missing} is not set. Set {_HOST}, {_HTTP_PATH} (on the "
            f"warehouse's connection page) or {_WAREHOUSE}, and {_TOKEN}; or give --tables a path"
        )
        raise CatalogError(msg)
    catalog, schema = tables.split(".")
    server = host.removeprefix("https://").rstrip("/")
    try:
        return sql.connect(server, http_path, os.environ.get(_TOKEN), catalog=catalog, schema=schema, **_sign_in(host))
    # The SDK raises ValueError for incomplete credentials.
    except (Error, OSError, ValueError) as error:
        raise _failed(error) from error


def _sign_in(host: str) -> dict[str, Any]:
    """Return arguments to sign in as a service principal or by OAuth in a browser; none with a token."""
    if os.environ.get(_TOKEN):
        return {}
    client, secret = os.environ.get(_CLIENT), os.environ.get(_CLIENT_SECRET)
    if client and secret:
        return {"credentials_provider": lambda: service_principal(host, client, secret)}
    return {"auth_type": "databricks-oauth"}


def service_principal(host: str, client_id: str, client_secret: str) -> Callable[[], dict[str, str]]:
    """Return a cached provider of a service principal's sign-in headers, because a token outlives a connection."""
    # databricks-sdk 0.156 fails if two threads make their first `Config` at once.
    with _SIGNING_IN:
        return _provider(host, client_id, client_secret)


@cache
def _provider(host: str, client_id: str, client_secret: str) -> Callable[[], dict[str, str]]:
    from databricks.sdk.core import Config, oauth_service_principal

    config = Config(host=host, client_id=client_id, client_secret=client_secret)
    provider: Callable[[], dict[str, str]] = oauth_service_principal(config)
    return provider


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=timezone.utc) if isinstance(value, datetime) and value.tzinfo is None else value


def _of_host(value: Any) -> Any:
    # Spark collects times as naive datetimes in this host's time zone.
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value


def _failed(error: Exception) -> CatalogError:
    reason = first_line(error)
    if any(name in reason for name in _NO_SCHEMA):
        return CatalogError(
            f"the catalog has no such schema: {reason} `databricks bundle deploy` creates it; see --tables"
        )
    return CatalogError(f"the catalog refused: {reason}. Check --tables, the warehouse and your grants")

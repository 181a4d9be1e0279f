"""SQL literals, for queries that can't take parameters."""

from datetime import datetime, timezone

from tables.schema.ddl import databricks_literal
from tables.store.path_tables import is_catalog


def literal(text: str, tables: str) -> str:
    r"""Return a text literal for the engine of `tables`: backslash escapes in a catalog, not in DuckDB.

    Examples:
        >>> print(literal("User:o'hara\\x", "./tables"), literal("User:a\\b", "main.pid_quota"))
        'User:o''hara\x' 'User:a\\b'
    """
    return databricks_literal(text) if is_catalog(tables) else standard_literal(text)


def standard_literal(value: str | datetime) -> str:
    """Return a text or an aware time as a standard SQL literal, for DuckDB and deltalake.

    Examples:
        >>> print(standard_literal("o'neill"), standard_literal(datetime(2026, 1, 15, 12, tzinfo=timezone.utc)))
        'o''neill' TIMESTAMP '2026-01-15T12:00:00+00:00'
    """
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(timezone.utc).isoformat()}'"
    return "'" + value.replace("'", "''") + "'"

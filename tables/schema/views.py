"""The views of `sql/views`: dependencies, and the statements that create them in a catalog."""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from quota.config import QuotaConfig
from tables.errors import QueryError, install_command
from tables.schema.specs import TABLES

SETTINGS = "settings"
"""A relation with one row for the views: the present time and the stream's window."""

_NAMES = ("VAR", "IDENTIFIER")
_COMMENT = re.compile(r"--.*")
_HEAD = """\
-- All views, for Spark SQL and Databricks SQL: run it where the tables are (`USE catalog.schema` first).
-- Printed by `python -m tables.schema.views`.
-- `settings` holds the stream's default window: change it if your stream has another.
"""


@cache
def views() -> dict[str, str]:
    """Return the SELECT of each view by name."""
    folder = resources.files("sql").joinpath("views")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {file.name.removesuffix(".sql"): file.read_text(encoding="utf-8") for file in files}


def relations() -> list[str]:
    """Return the names of all tables, then of all views."""
    return [*TABLES, *views()]


def needed_views(text: str) -> list[str]:
    """Return the views that a statement needs, directly or through other views, in order of dependency.

    Examples:
        >>> needed_views("TABLE quota_headroom")
        ['principal_metrics', 'quota_headroom']
    """
    ordered: list[str] = []
    for name in mentioned(text, views()):
        ordered += [*needed_views(_COMMENT.sub("", views()[name])), name]
    return list(dict.fromkeys(ordered))


def mentioned(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that occur as words in a statement."""
    words = {word.lower() for word in re.findall(r"\w+", text)}
    return [name for name in names if name in words]


def with_views(select: str, window_ms: int) -> str:
    """Return a SELECT with a CTE added for each view that it needs."""
    tokens = _tokens(select)
    ours = needed_views(" ".join(token.text for token in tokens if token.token_type.name in _NAMES))
    if not ours:
        return select
    parts = [f"{SETTINGS} AS ({settings_select(window_ms)})", *(f"{name} AS (\n{views()[name]})" for name in ours)]
    kinds = [token.token_type.name for token in tokens[:2]]
    if kinds[:1] != ["WITH"]:
        return f"WITH {', '.join(parts)}\n{select}"
    is_recursive = kinds == ["WITH", "RECURSIVE"]
    rest = select[tokens[is_recursive].end + 1 :]
    return f"WITH {'RECURSIVE ' if is_recursive else ''}{', '.join(parts)},{rest}"


def _tokens(sql: str) -> list[Any]:
    """Return the tokens of a Databricks statement. A string is one token. Comments give no token."""
    try:
        import sqlglot
    except ImportError as error:
        msg = f"a query on a catalog is read by sqlglot before it runs: {install_command('databricks')}"
        raise QueryError(msg) from error
    try:
        return sqlglot.tokenize(sql, read="databricks")
    except sqlglot.TokenError as error:
        msg = f"the query can't be read: {error}. Put one SELECT in quotes"
        raise QueryError(msg) from error


def settings_select(window_ms: int) -> str:
    """Return the SELECT of `settings`, for Spark and Databricks."""
    return f"SELECT current_timestamp() AS now, CAST({window_ms} AS BIGINT) AS window_ms"


def view_statements(window_ms: int) -> list[str]:
    """Return the statements that create all views, in order of dependency."""
    selects = {SETTINGS: settings_select(window_ms)} | {name: views()[name] for name in needed_views(" ".join(views()))}
    return [f"CREATE OR REPLACE VIEW {name} AS\n{select.strip()}" for name, select in selects.items()]


def main(arguments: Sequence[str] = ()) -> None:
    """Print the statements that create all views."""
    description = "Print the statements that create all views, for Spark SQL and Databricks SQL."
    ArgumentParser("python -m tables.schema.views", description=description).parse_args(arguments)
    print(_HEAD + "\n" + ";\n\n".join(view_statements(QuotaConfig().window_ms)) + ";")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Views in a catalog. A changed view is altered, because `CREATE OR REPLACE VIEW` would drop the view's grants."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml

from tables.schema.ddl import catalog_table, databricks_literal
from tables.schema.metric_views import metric_view_definition, metric_views
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS, mentioned, needed_views, settings_select, views

DEFINITION_PROPERTY = "pidQuota.definition"
"""Name of a view's property that holds the digest of its definition."""

_SETTINGS_COMMENT = "One row: the present time, and the window of the stream."
_COMMENT = re.compile(r"--.*")
_FIRST_LINES = re.compile(r"(?:--.*\n)+")


@dataclass(frozen=True)
class CatalogView:
    """A view to create or alter.

    Attributes:
        name: Full name, quoted.
        body: Text after AS: a SELECT, or the YAML of a metric view between dollar signs.
        comment: Comment on the view; empty for a metric view, whose YAML has the comment.
        columns: Comments by column name. Names that the view lacks are ignored.
    """

    name: str
    body: str
    comment: str
    columns: tuple[tuple[str, str], ...] = ()
    is_metric: bool = False

    @property
    def digest(self) -> str:
        """Digest of the definition and the comments."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def create_statement(self, columns: Sequence[str] = ()) -> str:
        """Return CREATE VIEW with comments on the given columns."""
        listed = ", ".join(f"`{name}`{self._commented(name)}" for name in columns)
        parts = [
            f"CREATE VIEW IF NOT EXISTS {self.name}{f' ({listed})' if listed else ''}",
            *(["WITH METRICS", "LANGUAGE YAML"] if self.is_metric else []),
            *([f"COMMENT {databricks_literal(self.comment)}"] if self.comment else []),
            f"TBLPROPERTIES ({self._property()})",
            f"AS {self.body}",
        ]
        return "\n".join(parts)

    def alter_statements(self) -> list[str]:
        """Return the statements that change an existing view. The last statement stores the digest."""
        return [
            f"ALTER VIEW {self.name} AS {self.body}",
            f"ALTER VIEW {self.name} SET TBLPROPERTIES ({self._property()})",
        ]

    def comment_statements(self, columns: Sequence[str]) -> list[str]:
        """Return Databricks' statements that comment on an altered view and the given columns."""
        comments = dict(self.columns)
        about = [f"COMMENT ON TABLE {self.name} IS {databricks_literal(self.comment)}"] if self.comment else []
        return about + [
            f"COMMENT ON COLUMN {self.name}.`{name}` IS {databricks_literal(comments[name])}"
            for name in columns
            if name in comments
        ]

    def _commented(self, column: str) -> str:
        comment = dict(self.columns).get(column)
        return f" COMMENT {databricks_literal(comment)}" if comment else ""

    def _property(self) -> str:
        return f"{databricks_literal(DEFINITION_PROPERTY)} = {databricks_literal(self.digest)}"


def catalog_views(tables: str, window_ms: int) -> list[CatalogView]:
    """Return all views, in order of dependency.

    When the views are created, `tables` (`catalog.schema`) must be the current schema.
    """
    selects = {SETTINGS: settings_select(window_ms)} | {name: views()[name] for name in needed_views(" ".join(views()))}
    return [
        CatalogView(
            catalog_table(tables, name), select.strip(), view_comment(name), tuple(column_comments(name).items())
        )
        for name, select in selects.items()
    ]


def catalog_metric_views(tables: str) -> list[CatalogView]:
    """Return the metric views."""
    return [
        CatalogView(catalog_table(tables, name), metric_view_definition(name, tables), "", is_metric=True)
        for name in metric_views()
    ]


def view_comment(name: str) -> str:
    """Return the comment at the start of a view's file.

    Examples:
        >>> view_comment("pid_budget")[:46]
        "Who makes the cluster's new producer ids: each"
    """
    found = _FIRST_LINES.match(views().get(name, ""))
    return " ".join(re.sub("^-- ?", "", line) for line in found[0].splitlines()) if found else _SETTINGS_COMMENT


def column_comments(view: str) -> dict[str, str]:
    """Return each column's comment from `sql/views/columns.yml`, or else from the tables that the view reads."""
    text = _COMMENT.sub("", "\n".join(views()[each] for each in needed_views(view)))
    of_tables = {
        column.name: column.metadata[b"comment"].decode()
        for table in reversed(mentioned(text, TABLES))
        for column in TABLES[table].schema
    }
    return of_tables | {name.removeprefix(f"{view}."): comment for name, comment in _own_comments().items()}


@cache
def _own_comments() -> dict[str, str]:
    text = resources.files("sql").joinpath("views").joinpath("columns.yml").read_text(encoding="utf-8")
    found: dict[str, str] = yaml.safe_load(text)
    return found

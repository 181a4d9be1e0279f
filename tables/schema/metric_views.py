"""The metric views of `sql/metric_views`, for Databricks (SQL warehouses, runtime 17.2 and later) and Spark 4.2."""

import re
from functools import cache
from importlib import resources
from typing import Any

import yaml

from tables.schema.ddl import catalog_table
from tables.schema.specs import TABLES
from tables.schema.views import views

_TABLE = re.compile(rf"(?<![.\w])({'|'.join(TABLES)})(?!\w)")
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


@cache
def metric_views() -> dict[str, dict[str, Any]]:
    """Return the metric views' definitions by name. A definition's `source` is the name of a view, or a SELECT."""
    folder = resources.files("sql").joinpath("metric_views")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yml")), key=lambda file: file.name)
    return {file.name.removesuffix(".yml"): yaml.safe_load(file.read_text(encoding="utf-8")) for file in files}


def metric_view_definition(name: str, tables: str) -> str:
    """Return the definition of a metric view in SQL: YAML between dollar signs."""
    definition = metric_views()[name]
    select = _COMMENT.sub("", views().get(definition["source"], definition["source"]))
    # A metric view may be queried from any schema, so its source needs full names.
    source = _TABLE.sub(lambda found: catalog_table(tables, found[1]), select)
    return f"$$\n{yaml.safe_dump(definition | {'source': source}, sort_keys=False, width=1000)}$$"

"""The example notebook: its queries on the demo's tables return the printed answers."""

import pytest
import sqlglot

from tables.query.sql_query import query
from tables.schema.views import views
from tests.kits.console_kit import NOW, demo_tables
from tests.kits.databricks_kit import ROOT
from tests.kits.notebook_kit import as_markdown, cells

CELLS = cells(ROOT / "resources" / "notebooks" / "first_look.sql")
SETUP = ("CREATE WIDGET", "USE IDENTIFIER")
QUESTIONS = [
    (before.text.partition("\n")[0], cell.text, after.text)
    for before, cell, after in zip(CELLS, CELLS[1:], CELLS[2:], strict=False)
    if cell.is_sql and not cell.text.startswith(SETUP)
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    return demo_tables(tmp_path_factory.mktemp("tables"), "User:search")


@pytest.mark.parametrize(("title", "select", "told"), QUESTIONS, ids=[title for title, _, _ in QUESTIONS])
def test_each_answer_is_the_one_that_the_notebook_prints(tables: str, title: str, select: str, told: str) -> None:
    answer = query(tables, select, NOW)
    assert told.split("\n\n", maxsplit=1)[0].split("\n") == as_markdown(answer)


def test_all_sql_is_databricks_sql_that_reads_views_only() -> None:
    assert QUESTIONS
    for _, select, _ in QUESTIONS:
        found = {table.name for table in sqlglot.parse_one(select, read="databricks").find_all(sqlglot.exp.Table)}
        assert found <= set(views())

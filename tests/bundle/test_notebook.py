"""The example notebook: its queries on the demo's tables return the printed answers."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlglot

from tables.query.sql_query import query
from tables.schema.views import views
from tables.store.values import Answer
from tests.kits.console_kit import NOW, demo_tables
from tests.kits.databricks_kit import ROOT

HEAD = "-- Databricks notebook source\n"
BETWEEN = "\n\n-- COMMAND ----------\n\n"
MAGIC = "-- MAGIC"


@dataclass(frozen=True)
class Cell:
    text: str
    is_sql: bool


def cells(file: Path) -> list[Cell]:
    text = file.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    return [_cell(part.strip("\n")) for part in text.removeprefix(HEAD).split(BETWEEN)]


def _cell(text: str) -> Cell:
    if not text.startswith(MAGIC):
        return Cell(text, is_sql=True)
    first, *lines = text.split("\n")
    assert first == f"{MAGIC} %md"
    return Cell("\n".join(re.sub(f"^{MAGIC} ?", "", line) for line in lines), is_sql=False)


def as_markdown(answer: Answer) -> list[str]:
    rows = [[str(value) for value in row] for row in answer.rows]
    return [f"| {' | '.join(row)} |" for row in (answer.columns, ["---"] * len(answer.columns), *rows)]


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

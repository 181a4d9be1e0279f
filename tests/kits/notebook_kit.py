"""Reads the source form of a Databricks SQL notebook."""

import re
from dataclasses import dataclass
from pathlib import Path

from tables.store.values import Answer

_HEAD = "-- Databricks notebook source\n"
_BETWEEN = "\n\n-- COMMAND ----------\n\n"
_MAGIC = "-- MAGIC"


@dataclass(frozen=True)
class Cell:
    text: str
    is_sql: bool


def cells(file: Path) -> list[Cell]:
    text = file.read_text(encoding="utf-8")
    assert text.startswith(_HEAD)
    return [_cell(part.strip("\n")) for part in text.removeprefix(_HEAD).split(_BETWEEN)]


def _cell(text: str) -> Cell:
    if not text.startswith(_MAGIC):
        return Cell(text, is_sql=True)
    first, *lines = text.split("\n")
    assert first == f"{_MAGIC} %md"
    return Cell("\n".join(re.sub(f"^{_MAGIC} ?", "", line) for line in lines), is_sql=False)


def as_markdown(answer: Answer) -> list[str]:
    rows = [[str(value) for value in row] for row in answer.rows]
    return [f"| {' | '.join(row)} |" for row in (answer.columns, ["---"] * len(answer.columns), *rows)]

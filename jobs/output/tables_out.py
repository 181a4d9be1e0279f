"""Prints rows as a table, as JSON or as CSV."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import typer

from jobs.output.json_out import json_value, print_exactly, print_json
from jobs.output.terminal import output
from jobs.output.text_tables import TextTable
from tables.store.values import Answer

Form = Literal["table", "json", "csv"]
Formats = Mapping[str, Callable[[Any], str]]
"""Functions that format a column's values for people, by column name. These columns are right-aligned."""


def form(*, as_json: bool, as_csv: bool = False) -> Form:
    """Return the output form for the options."""
    if as_json and as_csv:
        msg = "--json and --csv both set the output format: give one of them"
        raise typer.BadParameter(msg)
    if as_json:
        return "json"
    return "csv" if as_csv else "table"


def show(answer: Answer, wanted: Form, formats: Formats | None = None) -> None:
    """Print rows. `formats` applies only to tables."""
    made = formats or {}
    if wanted == "table":
        rows = (
            [
                made[name](value) if name in made and value is not None else value
                for name, value in zip(answer.columns, row, strict=True)
            ]
            for row in answer.rows
        )
        output().print(TextTable(answer.columns, rows, right=made))
    elif wanted == "json":
        print_json(answer.records(), indent=2)
    else:
        # CSV already ends in a line break.
        print_exactly(to_csv(answer), end="")


def to_csv(answer: Answer, *, header: bool = True) -> str:
    r"""Return the rows as CSV, by default with a header. Lists, objects and booleans are JSON; null is an empty cell.

    Examples:
        >>> to_csv(Answer(("who", "ids"), (("User:a,b", [1, 2]), (None, []))))
        'who,ids\n"User:a,b","[1, 2]"\n,[]\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(answer.columns)
    writer.writerows([_cell(value) for value in row] for row in answer.rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    plain = json_value(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list | bool) else plain

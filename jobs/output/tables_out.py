"""Prints rows as a table, as JSON or as CSV."""

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, Literal

import typer

from jobs.output.terminal import output, printable
from jobs.output.text_tables import TextTable
from tables.store.values import Answer

Form = Literal["table", "json", "csv"]
Formats = Mapping[str, Callable[[Any], str]]
"""How to write the values of some columns for people, by name; they are aligned to the right, as numbers are."""


def form(*, as_json: bool, as_csv: bool) -> Form:
    """Return the form that the options ask for."""
    if as_json and as_csv:
        msg = "--json and --csv both set the output format: give one of them"
        raise typer.BadParameter(msg)
    if as_json:
        return "json"
    return "csv" if as_csv else "table"


def show(answer: Answer, wanted: Form, formats: Formats | None = None) -> None:
    """Print the rows; as a table, with the values of some columns written in a form of their own."""
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
        # CSV ends in a line break already.
        _print(to_csv(answer), end="")


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON; for its types see `json_value`."""
    _print(json.dumps(json_value(value), ensure_ascii=False, allow_nan=False, indent=indent))


def _print(text: str, end: str = "\n") -> None:
    if sys.stdout.isatty():
        # Control characters would control the terminal; a pipe gets the text unchanged.
        text = "\n".join(printable(line).plain for line in text.split("\n"))
    # `typer.echo` would remove colour codes, which may be part of a name, from a pipe.
    print(text, end=end, flush=True)


def to_csv(answer: Answer) -> str:
    r"""Return the rows as CSV with a header; values as in JSON, null as empty, lists and maps as JSON.

    Examples:
        >>> to_csv(Answer(("who", "ids"), (("User:a,b", [1, 2]), (None, []))))
        'who,ids\n"User:a,b","[1, 2]"\n,[]\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_cell(value) for value in row] for row in answer.rows)
    return text.getvalue()


def json_value(value: Any) -> Any:
    """Return a value in the types of JSON: times in UTC as ISO 8601, bytes in hex, NaN and infinity as null."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc) if value.tzinfo else value).isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return str(value)


def _cell(value: Any) -> Any:
    plain = json_value(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list | bool) else plain

"""Reads quotas from a file: CSV, or YAML as written by `pid-quota quotas --describe --json`."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from jobs.errors import QuotaCommandError
from quota.errors import InvalidQuotaError
from quota.limits import validate_rate

_NAME, _RATE = "entity_name", "producer_ids_rate"
_ALSO = ("entity_type", "updated_at", "updated_by")
"""Other fields of `quotas --describe`, which are ignored."""
_DEFAULT_NAMES = (None, "", "<default>")


@dataclass(frozen=True)
class QuotaLine:
    """A quota in a file; `entity_name` None is the default."""

    entity_name: str | None
    producer_ids_rate: float


def read_quotas(file: Path) -> list[QuotaLine]:
    """Read and validate a file of quotas.

    Args:
        file: `.csv` with the columns `entity_name` and `producer_ids_rate`, or `.yaml`, `.yml`, `.json` with a list of
            entries of those names. An empty name is the default.

    Raises:
        QuotaCommandError: If the file can't be read, or an entry is invalid or a duplicate.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"--import {file} can't be read ({error}). Give a readable file in UTF-8"
        raise QuotaCommandError(msg) from error
    parse = {".csv": _parse_csv, ".yaml": _parse_yaml, ".yml": _parse_yaml, ".json": _parse_yaml}.get(file.suffix)
    if parse is None:
        msg = f"--import {file} has no known file type. Name it .csv, .yaml or .json"
        raise QuotaCommandError(msg)
    lines: dict[str | None, QuotaLine] = {}
    for place, entry in parse(file, text):
        line = _line(file, place, entry)
        if line.entity_name in lines:
            msg = f"--import {file}, {place}: {line.entity_name or 'the default'} appears twice. Keep one of them"
            raise QuotaCommandError(msg)
        lines[line.entity_name] = line
    if not lines:
        msg = f"--import {file} holds no quota. Give each as {_NAME} and {_RATE}"
        raise QuotaCommandError(msg)
    return list(lines.values())


def _parse_csv(file: Path, text: str) -> list[tuple[str, dict[Any, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    named = set(reader.fieldnames or ())
    if not {_NAME, _RATE} <= named <= {_NAME, _RATE, *_ALSO}:
        msg = f"--import {file} has the columns {reader.fieldnames}. The first line has to be {_NAME},{_RATE}"
        raise QuotaCommandError(msg)
    return [(f"line {reader.line_num}", row) for row in reader]


def _parse_yaml(file: Path, text: str) -> list[tuple[str, dict[Any, Any]]]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        msg = f"--import {file} is not valid YAML: {' '.join(str(error).split())}. Compare `quotas --describe --json`"
        raise QuotaCommandError(msg) from error
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        msg = f"--import {file} is not a list of entries. Write '- {{{_NAME}: user1, {_RATE}: 50}}' per line"
        raise QuotaCommandError(msg)
    return [(f"entry {number}", entry) for number, entry in enumerate(content, start=1)]


def _line(file: Path, place: str, entry: dict[Any, Any]) -> QuotaLine:
    unknown = set(entry) - {_NAME, _RATE, *_ALSO}
    name, rate = entry.get(_NAME), entry.get(_RATE)
    wrong: object = None
    if unknown or _NAME not in entry or entry.get("entity_type", "user") != "user":
        wrong = f"has the fields {sorted(map(str, entry))}, expected are {_NAME} and {_RATE}"
    elif isinstance(rate, bool) or not isinstance(rate, str | int | float):
        wrong = f"{_RATE} {rate!r} is not a number"
    elif name not in _DEFAULT_NAMES and (not isinstance(name, str) or name.startswith("User:")):
        wrong = f"{_NAME} {name!r} is not a bare user name in quotes"
    else:
        try:
            return QuotaLine(None if name in _DEFAULT_NAMES else name, validate_rate(float(rate)))
        except (ValueError, InvalidQuotaError) as error:
            wrong = error
    msg = f"--import {file}, {place}: {wrong}. Nothing was set; correct it and import the file again"
    raise QuotaCommandError(msg) from (wrong if isinstance(wrong, Exception) else None)

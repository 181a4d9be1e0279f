"""Reads and writes files of quotas: CSV, YAML, or JSON in the format of `pid-quota quotas --describe --json`."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from jobs.errors import JobError, WrongSettingError
from quota.allowance import BURST, RATE, Allowance
from quota.errors import InvalidQuotaError
from tables.quotas.quota_entry import QuotaEntry

_NAME = "entity_name"
_ALSO = ("entity_type", "updated_at", "updated_by")
"""Other fields of `quotas --describe`, which a file may contain."""
_DEFAULT = "<default>"
_DEFAULT_NAMES = (None, "", _DEFAULT)
_SUFFIXES = (".csv", ".yaml", ".yml", ".json")


def read_quotas(file: Path) -> dict[str | None, Allowance]:
    """Return the quotas of a file by bare user name. The key None is the default quota.

    A `.csv` has the columns `entity_name`, `producer_ids_rate` and, optionally, `producer_ids_burst`. A `.yaml`, `.yml`
    or `.json` is a list of entries with these fields; an empty list means that there are no quotas. An empty name means
    the default quota. An empty burst means the stream's default.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"quotas file {file} can't be read ({error}). Give a readable file in UTF-8"
        raise WrongSettingError(msg) from error
    if file.suffix not in _SUFFIXES:
        msg = f"quotas file {file} has no known file type. Name it .csv, .yaml or .json"
        raise WrongSettingError(msg)
    quotas: dict[str | None, Allowance] = {}
    for place, entry in (_parse_csv if file.suffix == ".csv" else _parse_yaml)(file, text):
        entity_name, allowance = _quota(file, place, entry)
        if entity_name in quotas:
            msg = f"quotas file {file}, {place}: {entity_name or 'the default'} appears twice. Keep one of them"
            raise WrongSettingError(msg)
        quotas[entity_name] = allowance
    return quotas


def write_quotas(file: Path, entries: Iterable[QuotaEntry]) -> None:
    """Write the names and numbers of quotas in a format that `read_quotas` reads."""
    rows = [_row(entry) for entry in entries]
    if file.suffix not in _SUFFIXES:
        msg = f"--export {file} has no known file type. Name it .csv, .yaml or .json"
        raise JobError(msg)
    if file.suffix == ".csv":
        lines = io.StringIO()
        columns = [_NAME, RATE, *([BURST] if any(BURST in row for row in rows) else [])]
        writer = csv.DictWriter(lines, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = lines.getvalue()
    elif file.suffix == ".json":
        text = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    else:
        text = yaml.safe_dump(rows, allow_unicode=True, sort_keys=False)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"--export {file} can't be written ({error.strerror}): choose another file"
        raise JobError(msg) from error


def _row(entry: QuotaEntry) -> dict[str, Any]:
    burst = {} if entry.producer_ids_burst is None else {BURST: entry.producer_ids_burst}
    return {_NAME: entry.entity_name or _DEFAULT, RATE: entry.producer_ids_rate} | burst


def _parse_csv(file: Path, text: str) -> list[tuple[str, dict[Any, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    named = set(reader.fieldnames or ())
    if not {_NAME, RATE} <= named <= {_NAME, RATE, BURST, *_ALSO}:
        msg = f"quotas file {file} has the columns {reader.fieldnames}. The first line has to be {_NAME},{RATE},{BURST}"
        raise WrongSettingError(msg)
    rows = [(f"line {reader.line_num}", row) for row in reader]
    if not rows:
        raise _without_quota(file)
    return rows


class _OnceEach(yaml.CSafeLoader):
    """A loader of YAML and JSON that rejects an entry with a repeated field."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                place = f"{self.name}, line {key.start_mark.line + 1}"
                msg = f"{place}: {key.value} appears twice in an entry. Nothing was set; keep one of them"
                raise WrongSettingError(msg)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _parse_yaml(file: Path, text: str) -> list[tuple[str, dict[Any, Any]]]:
    try:
        loader = _OnceEach(text)
        loader.name = f"quotas file {file}"
        documents = []
        while loader.check_data():
            documents.append(loader.get_data())
    except yaml.YAMLError as error:
        msg = (
            f"quotas file {file} is not valid YAML: {' '.join(str(error).split())}. Compare `quotas --describe --json`"
        )
        raise WrongSettingError(msg) from error
    # Each of several documents may also be an entry, as in a file of Kubernetes resources.
    lists = [[found] if isinstance(found, dict) and len(documents) > 1 else found for found in documents]
    lists = [found for found in lists if found is not None]
    if not lists:
        raise _without_quota(file)
    content = [entry for found in lists if isinstance(found, list) for entry in found]
    if not all(isinstance(each, list) for each in lists) or not all(isinstance(entry, dict) for entry in content):
        msg = f"quotas file {file} is not a list of entries. Write '- {{{_NAME}: user1, {RATE}: 50}}' per line"
        raise WrongSettingError(msg)
    return [(f"entry {number}", entry) for number, entry in enumerate(content, start=1)]


def _without_quota(file: Path) -> WrongSettingError:
    """Return the error of a file that may be half written, unlike an empty list."""
    msg = f"quotas file {file} holds no quota. Give each as {_NAME} and {RATE}, or [] in a .yaml or .json for none"
    return WrongSettingError(msg)


def _quota(file: Path, place: str, entry: dict[Any, Any]) -> tuple[str | None, Allowance]:
    unknown = set(entry) - {_NAME, RATE, BURST, *_ALSO}
    name = entry.get(_NAME)
    wrong: object = None
    if unknown or _NAME not in entry or entry.get("entity_type", "user") != "user":
        wrong = f"has the fields {sorted(map(str, entry))}, expected are {_NAME}, {RATE} and {BURST}"
    elif name not in _DEFAULT_NAMES and (not isinstance(name, str) or name.startswith("User:")):
        wrong = f"{_NAME} {name!r} is not a bare user name in quotes"
    elif name and name != name.strip(" "):
        wrong = f"{_NAME} {name!r} begins or ends with a blank"
    else:
        try:
            numbers = {key: _number(key, entry.get(key)) for key in (RATE, BURST)}
            return None if name in _DEFAULT_NAMES else name, Allowance.parse(numbers)
        except InvalidQuotaError as error:
            wrong = error
    msg = f"quotas file {file}, {place}: {wrong}. Nothing was set; correct it"
    raise WrongSettingError(msg) from (wrong if isinstance(wrong, Exception) else None)


def _number(name: str, value: object) -> object:
    """Convert text to a number; empty text becomes None. Other values stay unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return float(value) if value.strip() else None
    except ValueError:
        msg = f"{name} {value!r} is not a number"
        raise InvalidQuotaError(msg) from None

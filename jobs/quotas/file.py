"""Reads and writes files of quotas: CSV, YAML, or JSON in the format of `pid-quota quotas --describe --json`."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import yaml

from jobs.errors import JobError, WrongSettingError
from quota.allowance import BURST, RATE, Allowance, plain_number
from quota.errors import InvalidQuotaError
from tables.quotas.quota_entry import QuotaEntry

_NAME = "entity_name"
_ALSO = ("entity_type", "updated_at", "updated_by")
"""Other fields of `quotas --describe`, which a file may contain."""
_DEFAULT = "<default>"
_DEFAULT_NAMES = (None, "", _DEFAULT)
_SUFFIXES = (".csv", ".yaml", ".yml", ".json")


def read_quotas(file: Path, check_name: Callable[[str], None]) -> dict[str | None, Allowance]:
    """Return the quotas of a file by bare user name. The key None is the default quota.

    A `.csv` has the columns `entity_name`, `producer_ids_rate` and, optionally, `producer_ids_burst`. A `.yaml`, `.yml`
    or `.json` is a list of entries with these fields; an empty list means that there are no quotas. An empty name means
    the default quota. An empty burst means the stream's default. `check_name` raises InvalidQuotaError for a name
    that no user has.
    """
    try:
        # `read_text` would change a carriage return in a name.
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"quotas file {file} can't be read ({error}). Give a readable file in UTF-8"
        raise WrongSettingError(msg) from error
    if file.suffix not in _SUFFIXES:
        msg = f"quotas file {file} has no known file type. Name it .csv, .yaml or .json"
        raise WrongSettingError(msg)
    quotas: dict[str | None, Allowance] = {}
    for place, entry in _PARSERS[file.suffix](file, text):
        entity_name, allowance = _quota(file, place, entry, check_name)
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
        # Python before 3.13 writes a carriage return without quotation marks.
        has_returns = any("\r" in row[_NAME] for row in rows)
        quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if has_returns else csv.QUOTE_MINIMAL
        writer = csv.DictWriter(lines, columns, lineterminator="\n", quoting=quoting)
        writer.writeheader()
        writer.writerows(rows)
        text = lines.getvalue()
    elif file.suffix == ".json":
        text = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    else:
        # Within quotation marks, a loader would change a control character or line separator that has no escape.
        has_escapes = not all(row[_NAME].isprintable() for row in rows)
        text = yaml.safe_dump(rows, allow_unicode=not has_escapes, sort_keys=False)
    try:
        file.write_bytes(text.encode("utf-8"))
    except OSError as error:
        msg = f"--export {file} can't be written ({error.strerror}): choose another file"
        raise JobError(msg) from error


def _row(entry: QuotaEntry) -> dict[str, Any]:
    burst = {} if entry.producer_ids_burst is None else {BURST: entry.producer_ids_burst}
    return {_NAME: entry.entity_name or _DEFAULT, RATE: entry.producer_ids_rate} | burst


def _parse_csv(file: Path, text: str) -> list[tuple[str, dict[Any, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    named = Counter(reader.fieldnames or ())
    twice = [column for column, count in named.items() if count > 1]
    if twice:
        msg = f"quotas file {file}, line 1: {twice[0]} appears twice. Keep one of the columns"
        raise WrongSettingError(msg)
    if not {_NAME, RATE} <= set(named) <= {_NAME, RATE, BURST, *_ALSO}:
        msg = f"quotas file {file} has the columns {reader.fieldnames}. The first line has to be {_NAME},{RATE},{BURST}"
        raise WrongSettingError(msg)
    rows = [(f"line {reader.line_num}", row) for row in reader]
    if not rows:
        raise _without_quota(file)
    return rows


class _StrictLoader(yaml.CSafeLoader):
    """A loader that rejects an entry with a repeated field, and numbers that people don't read as YAML does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                place = f"{self.name}, line {key.start_mark.line + 1}"
                msg = f"{place}: {key.value} appears twice in an entry. Nothing was set; keep one of them"
                raise WrongSettingError(msg)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        try:
            number = plain_number(node.value)
        except ValueError as error:
            msg = f"{self.name}, line {node.start_mark.line + 1}: {error}. Nothing was set; correct it"
            raise WrongSettingError(msg) from error
        return int(number) if node.value.isdecimal() and math.isfinite(number) else number


for _tag in ("int", "float"):
    _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _StrictLoader.construct_number)


def _parse_yaml(file: Path, text: str) -> list[tuple[str, dict[Any, Any]]]:
    try:
        loader = _StrictLoader(text)
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


def _parse_json(file: Path, text: str) -> list[tuple[str, dict[Any, Any]]]:
    entries = 0

    def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal entries
        entries += 1
        for name, count in Counter(name for name, _ in pairs).items():
            if count > 1:
                place = f"quotas file {file}, entry {entries}"
                msg = f"{place}: {name} appears twice in an entry. Nothing was set; keep one of them"
                raise WrongSettingError(msg)
        return dict(pairs)

    if not text.strip():
        raise _without_quota(file)
    try:
        content = json.loads(text, object_pairs_hook=once_each)
    except (ValueError, RecursionError) as error:
        msg = f"quotas file {file} is not valid JSON: {error}. Compare `quotas --describe --json`"
        raise WrongSettingError(msg) from error
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        msg = f'quotas file {file} is not a list of entries. Write [{{"{_NAME}": "user1", "{RATE}": 50}}]'
        raise WrongSettingError(msg)
    return [(f"entry {number}", entry) for number, entry in enumerate(content, start=1)]


_PARSERS = {".csv": _parse_csv, ".yaml": _parse_yaml, ".yml": _parse_yaml, ".json": _parse_json}


def _without_quota(file: Path) -> WrongSettingError:
    """Return the error of a file that may be half written, unlike an empty list."""
    msg = f"quotas file {file} holds no quota. Give each as {_NAME} and {RATE}, or [] in a .yaml or .json for none"
    return WrongSettingError(msg)


def _quota(
    file: Path, place: str, entry: dict[Any, Any], check_name: Callable[[str], None]
) -> tuple[str | None, Allowance]:
    unknown = set(entry) - {_NAME, RATE, BURST, *_ALSO}
    name = entry.get(_NAME)
    wrong: object = None
    if unknown or _NAME not in entry or entry.get("entity_type", "user") != "user":
        wrong = f"has the fields {sorted(map(str, entry))}, expected are {_NAME}, {RATE} and {BURST}"
    elif name not in _DEFAULT_NAMES and not isinstance(name, str):
        wrong = f"{_NAME} {name!r} is not a bare user name in quotes"
    else:
        try:
            if name not in _DEFAULT_NAMES:
                check_name(str(name))
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
    if not value.strip():
        return None
    try:
        return plain_number(value.strip())
    except ValueError as error:
        msg = f"{name} {error}"
        raise InvalidQuotaError(msg) from error

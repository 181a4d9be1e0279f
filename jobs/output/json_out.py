"""Prints JSON, also on hosts without the tables' libraries."""

import json
import math
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from jobs.output.terminal import printable


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON."""
    print_exactly(json.dumps(json_value(value), ensure_ascii=False, allow_nan=False, indent=indent))


def print_exactly(text: str, end: str = "\n") -> None:
    """Print `text` unchanged, but escape control characters on a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(printable(line).plain for line in text.split("\n"))
    # In a pipe, `typer.echo` would remove colour codes, which may be part of a name.
    print(text, end=end, flush=True)


def json_value(value: Any) -> Any:
    """Convert a value to JSON types: times to ISO 8601 (in UTC if zoned), bytes to hex, NaN and infinity to null."""
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

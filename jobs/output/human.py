"""Formats values for people. JSON and CSV contain the exact values."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from quota.decision import OTHER_CLIENTS

NOTHING = "-"


def human(value: Any) -> str:
    """Format a value for people: times to the second, fractions with four digits, whole numbers exactly.

    Examples:
        >>> human(datetime(2026, 1, 15, 12, 0, 0, 84040, tzinfo=timezone.utc)), human(datetime(2026, 1, 15))
        ('2026-01-15 12:00:00Z', '2026-01-15 00:00:00')
        >>> human(333.3333333), human(0.1 + 0.2), human(1432.0), human(12345.678), human(123456789)
        ('333.3', '0.3', '1432', '12346', '123456789')
        >>> human({"rdkafka": 215, "spark-7": 20}), human([7001, 7002]), human(()), human(""), human(True)
        ('rdkafka 215, spark-7 20', '7001, 7002', '-', '-', 'yes')
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime):
        return time_of(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {human(item)}" for key, item in value.items()) or NOTHING
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(human, value)) or NOTHING
    return str(value) or NOTHING


def time_of(at: datetime) -> str:
    """Format a time to the second. A time with a zone is converted to UTC and marked with a Z."""
    if at.tzinfo is None:
        return f"{at:%Y-%m-%d %H:%M:%S}"
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%SZ}"


def size(size_bytes: int) -> str:
    """Format a size in kB, MB or GB.

    Examples:
        >>> size(0), size(900), size(2_500_000)
        ('0', '0.9 kB', '2.5 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes / 1000:.1f} kB" if size_bytes else "0"


def plural(count: float, one: str, many: str | None = None) -> str:
    """Return a number with its noun.

    Examples:
        >>> plural(1, "address", "addresses"), plural(2, "address", "addresses"), plural(1234, "row")
        ('1 address', '2 addresses', '1,234 rows')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(counts: Mapping[str, int], most: int = 5) -> str:
    """Format up to `most` names with their counts, the greatest count first. `others` adds up the remaining counts.

    Examples:
        >>> counted({"10.0.0.7": 4, "10.0.0.8": 1200})
        '10.0.0.8 (1,200), 10.0.0.7 (4)'
        >>> counted({"other": 9, "b": 2, "a": 3, "c": 1}, most=2)
        'a (3), b (2), others (10)'
    """
    named = [name for name in sorted(counts, key=lambda name: -counts[name]) if name != OTHER_CLIENTS][:most]
    others = sum(counts.values()) - sum(counts[name] for name in named)
    shown = [f"{name} ({counts[name]:,})" for name in named]
    return ", ".join([*shown, f"others ({others:,})"] if others else shown)


def _number(value: float) -> str:
    is_whole = abs(value) >= 10_000 or value.is_integer()
    return f"{value:.0f}" if is_whole and abs(value) < 1e15 else f"{value:.4g}"

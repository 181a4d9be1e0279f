"""Words of messages."""

from collections.abc import Mapping

from quota.decision import OTHER_CLIENTS


def plural(count: float, one: str, many: str | None = None) -> str:
    """Return a number of things.

    Examples:
        >>> plural(1, "address", "addresses"), plural(2, "address", "addresses"), plural(1234, "row")
        ('1 address', '2 addresses', '1,234 rows')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(counts: Mapping[str, int], most: int = 5) -> str:
    """Return names with their counts, the greatest first; beyond a few, and of those told as `other`, the sum.

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

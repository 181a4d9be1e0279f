"""Times as text."""

from datetime import datetime, timezone


def time_text(ms: int) -> str:
    """Format a time as ISO 8601 UTC, to the millisecond.

    Examples:
        >>> time_text(0)
        '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Converts between the tables' aware datetimes and milliseconds since the epoch."""

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_time(ms: int) -> datetime:
    """Convert milliseconds since the epoch to a time in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


def to_ms(time: datetime) -> int:
    """Convert a time to milliseconds since the epoch."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def duration(seconds: float) -> str:
    """Return a duration as text, rounded.

    Examples:
        >>> duration(0.44), duration(30.2), duration(600), duration(9000), duration(86_400), duration(400_000)
        ('0.4 s', '30 s', '10 min', '2.5 h', '24 h', '4.6 d')
    """
    for length, unit in ((86_400, "d"), (3600, "h")):
        if seconds >= 2 * length:
            return f"{round(seconds / length, 1):g} {unit}"
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{round(seconds, 1):g} s"

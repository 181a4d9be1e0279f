"""Converts between the tables' aware datetimes and milliseconds since the epoch."""

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_time(ms: int) -> datetime:
    """Return an aware time."""
    return _EPOCH + timedelta(milliseconds=ms)


def to_ms(time: datetime) -> int:
    """Return milliseconds since the epoch."""
    return (time - _EPOCH) // timedelta(milliseconds=1)

"""Trigger intervals, and the default maximum number of records in a micro-batch.

A batch's memory depends on its number of events. A record may hold a thousand events.
"""

import re

AVAILABLE_NOW = "available-now"
ASAP = "asap"
"""The trigger that starts a batch when the previous batch has ended and there are records."""
MIN_EVENTS = 500_000
MAX_EVENTS = 2_000_000
"""Maximum number of events of a batch. The default memory suffices even if all have new PIDs of one principal."""
EVENTS_PER_SECOND = 400_000
"""Number of events to read per second of the interval. Two cores process fewer if each record has one event."""
_FASTEST = 3.0
"""Maximum factor by which records with several events raise `EVENTS_PER_SECOND`."""
_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600}


def records_of_a_batch(trigger: str, events_per_record: float = 1.0) -> int:
    """Return the default maximum number of records in a micro-batch.

    Spark starts batches only at multiples of the interval. To catch up, a batch must hold as many records as the
    machine can process in an interval.

    Args:
        trigger: Interval in Spark's format, `asap`, or `available-now`.
        events_per_record: Mean number of events per record, at least 1.

    Examples:
        >>> records_of_a_batch("1 second"), records_of_a_batch("4 seconds"), records_of_a_batch("1 minute")
        (500000, 1600000, 2000000)
        >>> records_of_a_batch("available-now")
        500000
        >>> records_of_a_batch("1 second", 20), records_of_a_batch("5 seconds", 20)
        (60000, 100000)
    """
    events = EVENTS_PER_SECOND * min(events_per_record, _FASTEST) * _seconds(trigger)
    return max(1, round(min(max(MIN_EVENTS, events), MAX_EVENTS) / events_per_record))


def interval(trigger: str) -> str:
    """Return a trigger's interval in Spark's format.

    Examples:
        >>> interval("asap"), interval("5 seconds")
        ('0 seconds', '5 seconds')
    """
    return "0 seconds" if trigger == ASAP else trigger


def is_interval(trigger: str) -> bool:
    """Return whether a trigger runs batch after batch.

    Examples:
        >>> [is_interval(each) for each in ("5 seconds", "asap", "available-now", "5 parsecs", "seconds")]
        [True, True, False, False, False]
    """
    return trigger == ASAP or _seconds(trigger) > 0


def _seconds(trigger: str) -> float:
    """Return the length of an interval in seconds. Return 0 if `trigger` is not a number and a unit."""
    found = re.fullmatch(r"\s*(?:interval\s+)?(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", trigger.lower())
    return float(found[1]) * _SECONDS.get(found[2], 0) if found else 0

"""Trigger intervals, and the default maximum of records in a micro-batch.

The memory of a batch depends on its events, and a record may hold a thousand.
"""

import re

AVAILABLE_NOW = "available-now"
ASAP = "asap"
"""A batch follows the one before as soon as there are records."""
MIN_EVENTS = 500_000
MAX_EVENTS = 2_000_000
"""A batch with this many new PIDs of one principal still fits the memory of our own session."""
EVENTS_PER_SECOND = 400_000
"""Above what two cores sustain with an event a record."""
_FASTEST = 3.0
"""At most so many times as many with several events a record."""
_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600}


def records_of_a_batch(trigger: str, events_per_record: float = 1.0) -> int:
    """Return the default maximum of records in a micro-batch.

    Spark starts batches at multiples of the interval only, even with a backlog. A maximum below what the machine reads
    in an interval would keep it from catching up.

    Args:
        trigger: Interval as Spark takes it, `asap`, or `available-now`.
        events_per_record: Mean of the topic, 1 at least.

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
    """Return the interval of a trigger as Spark takes it.

    Examples:
        >>> interval("asap"), interval("5 seconds")
        ('0 seconds', '5 seconds')
    """
    return "0 seconds" if trigger == ASAP else trigger


def _seconds(trigger: str) -> float:
    """Return the length of an interval in seconds; 0 if it is not a number and a unit (Spark accepts other forms)."""
    found = re.fullmatch(r"\s*(?:interval\s+)?(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", trigger.lower())
    return float(found[1]) * _SECONDS.get(found[2], 0) if found else 0

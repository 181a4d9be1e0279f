"""Trigger intervals, and the default maximum of records in a micro-batch."""

import re

AVAILABLE_NOW = "available-now"
LEAST_RECORDS = 500_000
MOST_RECORDS = 2_000_000
"""A batch with this many new PIDs of one principal still fits the memory of our own session."""
RECORDS_PER_SECOND = 400_000
"""Above what two cores sustain."""
_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600}


def records_of_a_batch(trigger: str) -> int:
    """Return the default maximum of records in a micro-batch.

    Spark starts batches at multiples of the interval only, even with a backlog. A maximum below what the machine reads
    in an interval would keep it from catching up.

    Args:
        trigger: Interval as Spark takes it, or `available-now`.

    Examples:
        >>> records_of_a_batch("1 second"), records_of_a_batch("4 seconds"), records_of_a_batch("1 minute")
        (500000, 1600000, 2000000)
        >>> records_of_a_batch("available-now")
        500000
    """
    return round(min(max(LEAST_RECORDS, RECORDS_PER_SECOND * _seconds(trigger)), MOST_RECORDS))


def _seconds(trigger: str) -> float:
    """Return the length of an interval in seconds; 0 if it is not a number and a unit (Spark accepts other forms)."""
    found = re.fullmatch(r"\s*(?:interval\s+)?(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", trigger.lower())
    return float(found[1]) * _SECONDS.get(found[2], 0) if found else 0

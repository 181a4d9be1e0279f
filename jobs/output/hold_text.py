"""Tells people what a row of the view `hold_status` means."""

from collections.abc import Mapping
from typing import Any

from jobs.output.human import plural, time_of


def hold_text(row: Mapping[str, Any]) -> str:
    """Return what keeps a principal from new producer ids, in one line.

    Examples:
        >>> hold_text({"hold": "left out", "hold_reason": "--never"})
        'not held: --never'
        >>> hold_text({"hold": "would be held", "hold_reason": None})
        'would be held, but the stream runs without --enforce'
    """
    kind, reason = row["hold"], row["hold_reason"]
    if kind == "left out":
        return f"not held: {reason or 'for an unknown reason'}"
    if kind == "would be held":
        return "would be held, but the stream runs without --enforce"
    if kind == "released":
        return f"released until {time_of(row['released_until'])}: brokers do not hold it"
    why = f": {reason}" if reason else ""
    until = f"until {time_of(row['hold_ends'])}"
    if kind == "written":
        return f"on hold {until}, but no live broker confirms it, see `pid-quota doctor`{why}"
    return f"on hold since {time_of(row['held_since'])}, {until}, {confirmed_text(row)}, {counts_text(row)}{why}"


def confirmed_text(row: Mapping[str, Any]) -> str:
    """Return how many of the live brokers confirm a hold.

    Examples:
        >>> confirmed_text({"confirmed_brokers": 2, "live_brokers": 3})
        'confirmed by 2 of 3 brokers'
    """
    return f"confirmed by {row['confirmed_brokers']} of {plural(row['live_brokers'], 'broker')}"


def counts_text(row: Mapping[str, Any]) -> str:
    """Return what a hold has done so far.

    Examples:
        >>> counts_text({"held_requests": 1234, "let_in": None})
        '1,234 requests for new producer ids held, 0 let in'
    """
    return f"{plural(row['held_requests'] or 0, 'request')} for new producer ids held, {row['let_in'] or 0:,} let in"

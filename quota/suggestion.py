"""Suggests a quota from a principal's history, high enough that a normal day refuses nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from quota.errors import InvalidConfigError

_DIGITS = 2


def suggested_rate(
    new_pids: Sequence[int], *, percentile: float = 99.0, headroom: float = 1.5, at_least: float = 10.0
) -> float:
    """Return a quota, in new PIDs per window.

    Args:
        new_pids: New PIDs of each past window that had any.
        percentile: Percentile of the windows that must fit, by nearest rank.
        headroom: Factor applied to it.
        at_least: Minimum quota: a few client restarts are no abuse.

    Raises:
        InvalidConfigError: If there is no window, or an option is out of range.

    Examples:
        >>> suggested_rate([3, 5, 4]), suggested_rate([70] * 99 + [9000]), suggested_rate([1040] * 5)
        (10.0, 110.0, 1600.0)
    """
    if not new_pids:
        msg = "no window of history to suggest a quota from: let the stream run for some windows first"
        raise InvalidConfigError(msg)
    if not (0 < percentile <= 100 and headroom >= 1):
        msg = f"percentile={percentile:g}, headroom={headroom:g}: choose a percentile up to 100 and a headroom from 1"
        raise InvalidConfigError(msg)
    rank = max(1, math.ceil(len(new_pids) * percentile / 100))
    return max(at_least, rounded_up(sorted(new_pids)[rank - 1] * headroom))


@dataclass(frozen=True)
class Excess:
    """What lies beyond a quota in past windows.

    Attributes:
        windows: How many there were.
        windows_over: Those with more new PIDs than the quota.
        pids_over: New PIDs beyond it, in all of them.
    """

    windows: int
    windows_over: int
    pids_over: int


def excess(new_pids: Sequence[int], rate: float) -> Excess:
    """Return what a quota would have refused at most: a bucket that is full when a window begins lets more pass.

    Args:
        new_pids: New PIDs of each past window that had any.
        rate: The quota, new PIDs per window.

    Examples:
        >>> excess([3, 10, 12], 9.5)
        Excess(windows=3, windows_over=2, pids_over=4)
    """
    over = [math.ceil(count - rate) for count in new_pids if count > rate]
    return Excess(len(new_pids), len(over), sum(over))


def rounded_up(value: float) -> float:
    """Round a value up to two significant digits.

    Examples:
        >>> rounded_up(105), rounded_up(1560), rounded_up(7), rounded_up(0)
        (110.0, 1600.0, 7.0, 0.0)
    """
    if value <= 0:
        return 0.0
    unit = 10 ** max(0, math.floor(math.log10(value)) + 1 - _DIGITS)
    return float(math.ceil(value / unit) * unit)

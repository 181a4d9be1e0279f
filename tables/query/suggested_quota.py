"""Suggests a quota from a principal's history: a rate for usual windows, and a burst for recurring peaks."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quota.allowance import Allowance

_DIGITS = 2
_WEEK_WINDOWS = 168
"""Windows in a week, with the default window of an hour."""
_PEAK = 4
"""A window is a peak if it has more than this many times the new PIDs of the median window."""
_BURST_HEADROOM = 1.2
"""Factor by which a burst exceeds the tokens that peaks take."""
PERCENTILE = 99.0
"""Percentile of a user's windows (nearest rank) that the quota must allow."""
HEADROOM = 1.5
"""Factor by which the quota exceeds that percentile."""
AT_LEAST = 10.0
"""Minimum quota, which allows a few client restarts."""


def suggested_rate(new_pids: Sequence[int]) -> float:
    """Return a quota, in new PIDs per window, from the new PIDs of each past window that had any, at least one.

    Examples:
        >>> suggested_rate([3, 5, 4]), suggested_rate([70] * 99 + [9000]), suggested_rate([1040] * 5)
        (10.0, 110.0, 1600.0)
    """
    rank = max(1, math.ceil(len(new_pids) * PERCENTILE / 100))
    return max(AT_LEAST, rounded_up(sorted(new_pids)[rank - 1] * HEADROOM))


def windows_with_peaks_once(new_pids: Mapping[int, int]) -> list[int]:
    """Return the new PIDs of each window. Of consecutive peaks, only the highest counts.

    Otherwise, a weekly deploy that spans two windows would count twice. Keys of `new_pids` are window numbers.

    Examples:
        >>> windows_with_peaks_once({0: 5, 1: 250, 2: 240, 3: 5, 4: 6})
        [5, 5, 6, 250]
    """
    usual = statistics.median(new_pids.values())
    peaks = {number for number, count in new_pids.items() if count > _PEAK * usual}
    usual_windows = [new_pids[number] for number in sorted(new_pids.keys() - peaks)]
    return [*usual_windows, *(max(new_pids[number] for number in run) for run in _runs(peaks))]


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


@dataclass(frozen=True)
class Excess:
    """Windows with new PIDs, and what a quota would have refused in these windows."""

    windows: int
    windows_over: int
    pids_over: int


def excess(new_pids: Mapping[int, int], allowance: Allowance | None) -> Excess:
    """Return what a quota would have refused if all new PIDs of each window had come when the window began.

    Refused PIDs take tokens, too, down to a debt that takes a window to pay.

    Args:
        new_pids: New PIDs by number of the window.
        allowance: The quota. If it has no burst, its rate is the burst. None means no quota.

    Examples:
        >>> excess({7: 3, 8: 10, 9: 12}, Allowance(9.5))
        Excess(windows=3, windows_over=2, pids_over=4)
        >>> excess({0: 500, 168: 500, 169: 500, 170: 1}, Allowance(10, 600))
        Excess(windows=4, windows_over=2, pids_over=391)
    """
    if allowance is None:
        return Excess(len(new_pids), 0, 0)
    tokens, last, over = allowance.burst, None, []
    for number in sorted(new_pids):
        if last is not None:
            tokens = min(allowance.burst, tokens + allowance.producer_ids_rate * (number - last))
        refused = math.ceil(max(0, new_pids[number] - max(0.0, tokens)))
        tokens = max(tokens - new_pids[number], -allowance.producer_ids_rate)
        last = number
        if refused:
            over.append(refused)
    return Excess(len(new_pids), len(over), sum(over))


def suggested_burst(new_pids: Mapping[int, int], rate: float) -> float:
    """Return a burst that lets recurring peaks pass under a quota of this rate. It is at least the rate.

    Here, a peak consists of consecutive windows with at least half as many new PIDs as the highest window. If the
    history is longer than a week and has only one peak, the peak does not recur.

    Args:
        new_pids: New PIDs by number of the window.
        rate: New PIDs per window.

    Examples:
        >>> suggested_burst({**dict.fromkeys(range(167), 5), 167: 500}, 10.0)
        600.0
        >>> suggested_burst({**dict.fromkeys(range(400), 5), 400: 500}, 10.0)
        10.0
    """
    most = max(new_pids.values())
    is_long = max(new_pids) - min(new_pids) > _WEEK_WINDOWS
    high = _runs(number for number, count in new_pids.items() if 2 * count >= most)
    left_out = set(high[0]) if is_long and len(high) == 1 else set()
    taken, deepest, last = 0.0, 0.0, None
    for number in sorted(new_pids):
        taken = 0.0 if last is None else max(0.0, taken - rate * (number - last))
        taken += 0 if number in left_out else new_pids[number]
        deepest, last = max(deepest, taken), number
    return rate if deepest <= rate else max(rate, rounded_up(deepest * _BURST_HEADROOM))


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

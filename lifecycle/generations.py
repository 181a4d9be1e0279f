"""Finds the producer ids that a deploy replaced. They have ended, even if they were in use recently.

A generation is a group of ids that came together. A deploy ends one generation and begins the next.
"""

from itertools import pairwise

import numpy as np

from lifecycle.occupancy import Bools, Int64s

PAUSE_MS = 45_000
"""Minimum pause between two groups of new ids, as for `steps` in the view `principal_churn`."""
OVERLAP_MS = 60_000
"""A roll-out ends an old process at most this long before or after it starts a new one."""
MIN_GROUP = 3
"""If fewer ids of a group end together, it may be by chance."""
REPLACED_SHARE = 0.5
"""Share of a group that must end as the next one begins."""


def replaced(begins_ms: Int64s, ends_ms: Int64s, now_ms: int) -> Bools:
    """Return which ids a deploy replaced: they ended with at least half of their group while the next group began.

    Args:
        begins_ms: When each id was handed out, in any order.
        ends_ms: Time of the last batch of each id.
        now_ms: When the brokers were asked.
    """
    order = np.argsort(begins_ms, kind="stable")
    edges = np.flatnonzero(np.diff(begins_ms[order]) >= PAUSE_MS) + 1
    found: Bools = np.zeros(len(begins_ms), np.bool_)
    for group, following in pairwise(np.split(order, edges)):
        first, last = begins_ms[following[0]] - OVERLAP_MS, begins_ms[following[-1]] + OVERLAP_MS
        ends = ends_ms[group]
        together = (ends >= first) & (ends <= last) & (ends < now_ms - OVERLAP_MS)
        if together.sum() >= max(MIN_GROUP, REPLACED_SHARE * len(group)):
            found[group] = together
    return found

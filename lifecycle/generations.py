"""Finds the producer ids that a deploy replaced. Such ids have ended, even if they were in use recently.

A deploy ends one group of ids and begins the next.
"""

from itertools import pairwise

import numpy as np

from lifecycle.occupancy import Bools, Int64s

PAUSE_MS = 45_000
"""Minimum pause between two groups of new ids, as in the view `principal_churn`."""
OVERLAP_MS = 60_000
"""A roll-out ends an old process at most this long before or after it starts a new process."""
MIN_GROUP = 3
"""Fewer ids of a group may end together by chance."""
REPLACED_SHARE = 0.5
"""Minimum share of a group that ends as the next group begins."""


def replaced(begins_ms: Int64s, ends_ms: Int64s, now_ms: int, slack_ms: Int64s | None = None) -> Bools:
    """Return which ids a deploy replaced: at least half of their group ended while the next group began.

    `begins_ms` has the hand-out times, and `ends_ms` the times of the last batches, which may have been up to
    `slack_ms` later. `now_ms` is when brokers were asked.
    """
    order = np.argsort(begins_ms, kind="stable")
    edges = np.flatnonzero(np.diff(begins_ms[order]) >= PAUSE_MS) + 1
    found: Bools = np.zeros(len(begins_ms), np.bool_)
    latest_ms = ends_ms if slack_ms is None else ends_ms + slack_ms
    for group, following in pairwise(np.split(order, edges)):
        first, last = begins_ms[following[0]] - OVERLAP_MS, begins_ms[following[-1]] + OVERLAP_MS
        ends = ends_ms[group]
        together = (latest_ms[group] >= first) & (ends <= last) & (ends < now_ms - OVERLAP_MS)
        if together.sum() >= max(MIN_GROUP, REPLACED_SHARE * len(group)):
            found[group] = together
    return found

"""How long micro-batches took, as a Prometheus histogram by query."""

from bisect import bisect_left
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily

BOUNDS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the buckets: a batch of an idle stream takes half a second, a trigger seldom waits for minutes."""


class BatchTimes:
    """Counts batches by duration. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def add(self, query: str, seconds: float) -> None:
        """Count a batch of a query."""
        counts = self._counts.setdefault(query, [0] * (len(BOUNDS_S) + 1))
        counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sums[query] = self._sums.get(query, 0.0) + seconds

    def family(self) -> HistogramMetricFamily:
        """Return all counts so far."""
        text = "Seconds that a query's micro-batches took, from trigger to commit."
        family = HistogramMetricFamily("pid_quota_stream_batch_duration_seconds", text, labels=["query"])
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        for query, counts in self._counts.items():
            family.add_metric([query], list(zip(bounds, accumulate(counts), strict=True)), self._sums[query])
        return family

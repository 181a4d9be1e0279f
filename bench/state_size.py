"""Compares the size of a principal's filters with that of one optimal Bloom filter, at twice the quota of PIDs.

    .venv/bin/python bench/state_size.py

The last line is JSON.
"""

import json
import math
from collections import defaultdict

from quota.config import QuotaConfig
from quota.limits import Limit
from state.codec import decode
from state.events import CHARGED, Deployment, Events
from state.ledger import Ledger

QUOTAS = (10, 100, 1_000, 100_000)
MIN_QUOTA = 100
"""Minimum quota in the headline. With a lower quota, five layers have more room than there are PIDs."""
HOURS = 2
TIMES_QUOTA = 2
BEGIN_MS = 1_790_000_000_000 // 900_000 * 900_000
MINUTE_MS = 60_000


def main() -> None:
    filters = {str(quota): filter_size(quota) for quota in QUOTAS}
    for quota, found in filters.items():
        print(f"  quota {quota:>8}: {found}")
    overhead = max(filters[str(quota)]["filter_overhead"] for quota in QUOTAS if quota >= MIN_QUOTA)
    print(json.dumps({"bloom_overhead": overhead, "filters": filters}))


def filter_size(quota: int) -> dict[str, float]:
    """Return the bytes stored for a principal after two hours at twice its quota, and the optimum."""
    config, size = QuotaConfig(), TIMES_QUOTA * HOURS * quota
    ledger, limit = Ledger("User:a", Deployment(config, salt=7)), Limit(float(quota), "user")
    times = [BEGIN_MS + number * HOURS * 3_600_000 // size for number in range(size)]
    by_minute: dict[int, list[int]] = defaultdict(list)
    for pid, at_ms in enumerate(times):
        by_minute[at_ms // MINUTE_MS].append(pid)
    for pids in by_minute.values():
        count = len(pids)
        rows = Events(pids, [times[pid] for pid in pids], [("c", "")] * count, [CHARGED] * count, [-1] * count)
        active = ledger.process(rows, limit).metrics[-1].active_pids
    content = ledger.to_bytes()
    bits = sum(len(layer.bits) for quantum in decode(content).quanta for layer in quantum.layers)
    optimum = bloom_optimum_bytes(active, config.false_positive_rate)
    return {
        "ledger_bytes": len(content),
        "filter_bytes": bits,
        "active_pids": active,
        "optimum_bytes": round(optimum),
        "filter_overhead": round(bits / optimum, 3),
    }


def bloom_optimum_bytes(pids: int, false_positive_rate: float) -> float:
    """Return the size of one Bloom filter, without layers, that is just large enough for this many PIDs."""
    return pids * math.log2(1 / false_positive_rate) / math.log(2) / 8


if __name__ == "__main__":
    main()

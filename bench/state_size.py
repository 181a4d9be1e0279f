"""Measures the state's size: against the minimum of a Bloom filter, per batch, and after many batches.

    .venv/bin/python bench/state_size.py                  # 1,000 batches
    .venv/bin/python bench/state_size.py --batches 100

For filters, a principal makes twice its quota of PIDs for two hours. For batches, the job reads a topic in small
batches, with state buckets and with a state per principal. The last line is JSON.
"""

import argparse
import json
import math
import re
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench import kit
from bench.loads import Load, loaded_broker
from bench.rounds import spread
from quota.config import QuotaConfig
from quota.limits import Limit
from state.codec import decode
from state.events import CHARGED, Deployment, Events
from state.ledger import Ledger
from streaming import pipeline

QUOTAS = (10, 100, 1_000, 100_000)
MIN_QUOTA = 100
"""Minimum quota in the headline. With a lower quota, five layers have more room than there are PIDs."""
HOURS = 2
TIMES_QUOTA = 2
BEGIN_MS = 1_790_000_000_000 // 900_000 * 900_000
MINUTE_MS = 60_000
MARKS = (10, 100, 300, 1_000, 3_000)
"""Numbers of batches after which the checkpoint's size is measured."""
POLL_S = 0.2
_VERSION = re.compile(r"(\d+)(?:_\S+)?\.changelog$")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--events-per-batch", type=int, default=200)
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--variants", default="job,job-each")
    asked = parser.parse_args()
    filters = {str(quota): filter_size(quota) for quota in QUOTAS}
    for quota, found in filters.items():
        print(f"  quota {quota:>8}: {found}")
    overhead = max(filters[str(quota)]["filter_overhead"] for quota in QUOTAS if quota >= MIN_QUOTA)
    print(json.dumps(vars(asked) | {"bloom_overhead": overhead, "filters": filters, "streams": stream_sizes(asked)}))


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
    """Return the size of one Bloom filter, without times, that is just large enough for this many PIDs."""
    return pids * math.log2(1 / false_positive_rate) / math.log(2) / 8


def stream_sizes(asked: argparse.Namespace) -> dict[str, Any]:
    """Run the job in many small batches, and return the sizes of its checkpoint."""
    load = Load(asked.batches * asked.events_per_batch, asked.principals)
    spark, found = kit.session(), {}
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-state-") as root,
        loaded_broker(Path(root), load) as (broker, content),
    ):
        for name in asked.variants.split(","):
            options = kit.stream_options(broker, load, content, Path(root, name), asked.events_per_batch, name)
            found[name] = stream_size(spark, options)
            print(f"  {name}: {found[name]}", flush=True)
    return found


def stream_size(spark: SparkSession, options: pipeline.StreamOptions) -> dict[str, Any]:
    """Run one stream to its end, and measure its checkpoint at `MARKS`."""
    checkpoint, marks, grown = Path(options.checkpoint), list(MARKS), {}
    query = pipeline.start(spark, options)
    done = 0
    while query.isActive:
        time.sleep(POLL_S)
        done = (query.lastProgress.batchId + 1) if query.lastProgress else 0
        while marks and done >= marks[0]:
            grown[str(marks.pop(0))] = kit.folder_bytes(checkpoint)
    query.awaitTermination()
    return {
        "batches": done,
        "state_written_per_batch_bytes": spread(written_by_version(checkpoint / "state")),
        "state_bytes": kit.folder_bytes(checkpoint / "state"),
        "checkpoint_bytes": kit.folder_bytes(checkpoint),
        "checkpoint_files": sum(1 for file in checkpoint.rglob("*") if file.is_file()),
        "checkpoint_bytes_after_batches": grown,
    }


def written_by_version(state: Path) -> list[int]:
    """Return the size of the changelogs of each version of the state that Spark still keeps."""
    found: dict[int, int] = defaultdict(int)
    for file in state.rglob("*.changelog"):
        if matched := _VERSION.search(file.name):
            found[int(matched[1])] += file.stat().st_size
    return [found[version] for version in sorted(found)]


if __name__ == "__main__":
    main()

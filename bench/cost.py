"""What does the job cost per event, per active principal and per batch?

    .venv/bin/python bench/cost.py

Runs the job over loads that differ in their principals and sizes of batches, and fits seconds of a batch to the three
by least squares, of relative errors: for wall time, and for the CPU time of Spark and its Python workers. The last line
is JSON.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import bench_kit as kit
import numpy as np
import throughput
from loads import ZIPF, Load, loaded_broker


@dataclass(frozen=True)
class Cost:
    """The mean batch of a run.

    Attributes:
        events: Its events.
        principals: Those who sent them.
        seconds: What it took.
    """

    events: float
    principals: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--principals", default="20,200,2000,20000")
    parser.add_argument("--batches", default="25000,100000,250000", help="their sizes in events")
    parser.add_argument("--batches-each", type=int, default=4)
    parser.add_argument("--per-record", type=int, default=20, help="events, on average; 1: version 1 of the records")
    parser.add_argument("--variant", default="job")
    asked = parser.parse_args()
    spark, sizes, rows = kit.session(), [int(each) for each in asked.batches.split(",")], []
    for principals in map(int, asked.principals.split(",")):
        for batch in sizes:
            load = Load(batch * (asked.batches_each + 1), principals, per_record=asked.per_record)
            with (
                tempfile.TemporaryDirectory(prefix="pid-quota-cost-") as root,
                loaded_broker(Path(root), load) as (broker, content),
            ):
                run = throughput.run(spark, broker, load, content, batch, asked.variant, Path(root, "run"))
            each = {"principals": principals, "events": round(run.events / run.batches), "batches": run.batches}
            each |= {"active_principals": round(active_principals(principals, run.events / run.batches), 1)}
            each |= {"wall_s": round(run.seconds / run.batches, 3), "cpu_s": round(run.cpu_seconds / run.batches, 3)}
            rows.append(each)
            print(f"  {each}", flush=True)
    fits = {
        name: fit([Cost(each["events"], each["active_principals"], each[f"{name}_s"]) for each in rows])
        for name in ("wall", "cpu")
    }
    for name, found in fits.items():
        print(f"{name}: {told(found)}")
    print(json.dumps(vars(asked) | {"runs": rows, "fits": fits}))


def active_principals(principals: int, events: float) -> float:
    """Return how many principals of a `bench_Load` are to be expected among so many events."""
    weights = 1 / np.arange(1, principals + 1) ** ZIPF
    return float((1 - (1 - weights / weights.sum()) ** events).sum())


def fit(costs: Sequence[Cost]) -> dict[str, float]:
    """Return the seconds per batch, per principal and per event that explain some batches best.

    Errors count relative to what a batch took, else the largest alone would be fitted. A part that would come out
    negative is taken for nothing, and the others are fitted without it.
    """
    taken = np.array([each.seconds for each in costs])
    columns = np.array([[1.0, each.principals, each.events] for each in costs]) / taken[:, None]
    # Of about the same size, so that no column vanishes beside another.
    scales, kept, found = columns.max(axis=0), [0, 1, 2], np.zeros(3)
    while kept:
        found = np.zeros(3)
        found[kept] = (
            np.linalg.lstsq(columns[:, kept] / scales[kept], np.ones(len(costs)), rcond=None)[0] / scales[kept]
        )
        if (found >= 0).all():
            break
        kept.remove(int(np.argmin(found * scales)))
    worst = float(np.abs(columns @ found - 1).max())
    parts = dict(zip(("batch_s", "principal_s", "event_s"), map(float, found), strict=True))
    return {**{name: float(f"{value:.4g}") for name, value in parts.items()}, "worst_error": round(worst, 3)}


def told(found: dict[str, float]) -> str:
    """Return a fit in words."""
    return (
        f"{found['batch_s'] * 1000:.0f} ms a batch, {found['principal_s'] * 1000:.2f} ms an active principal, "
        f"{found['event_s'] * 1e6:.2f} us an event; off by at most {found['worst_error']:.0%}"
    )


if __name__ == "__main__":
    main()

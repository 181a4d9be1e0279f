"""Measures what the job costs per event, per active principal and per batch.

    .venv/bin/python bench/cost.py

This runs the job over loads with different numbers of principals and sizes of batches. It then fits these three costs
to the wall time and CPU time of batches, by least squares of relative errors. The last line is JSON.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench import kit, throughput
from bench.loads import Load, loaded_broker, zipf_shares

BATCHES_EACH = 4
EVENTS_PER_RECORD = 20


@dataclass(frozen=True)
class Cost:
    """The mean batch of a run: its number of events, its number of principals with events, and its time."""

    events: float
    principals: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--principals", default="20,200,2000,20000")
    parser.add_argument("--batches", default="25000,100000,250000", help="their sizes in events")
    asked = parser.parse_args()
    spark, sizes, rows = kit.session(), [int(each) for each in asked.batches.split(",")], []
    for principals in map(int, asked.principals.split(",")):
        for batch in sizes:
            load = Load(batch * (BATCHES_EACH + 1), principals, per_record=EVENTS_PER_RECORD)
            with (
                tempfile.TemporaryDirectory(prefix="pid-quota-cost-") as root,
                loaded_broker(Path(root), load) as (broker, content),
            ):
                run = throughput.run(spark, broker, load, content, batch, "job", Path(root, "run"))
            events = run.events / run.batches
            row: dict[str, float] = {"principals": principals, "events": round(events), "batches": run.batches}
            row |= {"active_principals": round(active_principals(principals, events), 1)}
            row |= {"wall_s": round(run.seconds / run.batches, 3), "cpu_s": round(run.cpu_seconds / run.batches, 3)}
            rows.append(row)
            print(f"  {row}", flush=True)
    fits = {
        name: fit([Cost(each["events"], each["active_principals"], each[f"{name}_s"]) for each in rows])
        for name in ("wall", "cpu")
    }
    print(json.dumps(vars(asked) | {"runs": rows, "fits": fits}))


def active_principals(principals: int, events: float) -> float:
    """Return how many of a load's principals are expected in this many events."""
    return float((1 - (1 - zipf_shares(principals)) ** events).sum())


def fit(costs: Sequence[Cost]) -> dict[str, float]:
    """Return the seconds per batch, per principal and per event that fit the batches best.

    Errors are relative to a batch's time, because otherwise only the largest batches would count. A part that would be
    negative is set to 0, and the others are fitted without it.
    """
    taken = np.array([each.seconds for each in costs])
    columns = np.array([[1.0, each.principals, each.events] for each in costs]) / taken[:, None]
    # Scale the columns to similar size, so that none vanishes beside another.
    scales, kept, found = columns.max(axis=0), [0, 1, 2], np.zeros(3)
    while kept:
        found = np.zeros(3)
        scaled = columns[:, kept] / scales[kept]
        found[kept] = np.linalg.lstsq(scaled, np.ones(len(costs)), rcond=None)[0] / scales[kept]
        if (found >= 0).all():
            break
        kept.remove(int(np.argmin(found * scales)))
    worst = float(np.abs(columns @ found - 1).max())
    parts = dict(zip(("batch_s", "principal_s", "event_s"), map(float, found), strict=True))
    return {**{name: float(f"{value:.4g}") for name, value in parts.items()}, "worst_error": round(worst, 3)}


if __name__ == "__main__":
    main()

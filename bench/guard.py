"""Checks that the job is still as fast as when its figures were committed. Takes about 3 minutes.

    .venv/bin/python bench/guard.py              # compares with the newest file of bench/results
    .venv/bin/python bench/guard.py --measure    # only measures, for `bench/report.py`

The figure is the job's rate divided by the rate of `dropDuplicatesWithinWatermark`. Both take turns on the same small
load, because a ratio differs less between machines than seconds do. The script compares the median of its rounds with
the committed figure, and fails if the figure has fallen by more than `TOLERANCE`. The last line is JSON.
"""

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench import kit, throughput
from bench.loads import BenchError, Load, loaded_broker
from bench.rounds import MIN_ROUNDS, interleaved, ratios

FIGURE = "guard_vs_dedup"
TOLERANCE = 0.25
"""Share of the figure that may be lost. Medians of five rounds on a shared 2-core machine differ by less."""
EVENTS = 2_000_000
BATCHES = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="compare with nothing")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    asked = parser.parse_args()
    committed = None if asked.measure else committed_figure(kit.BENCH / "results")
    found = measured(Load(asked.events, principals=200, per_record=20), asked.events // BATCHES, asked.rounds)
    print(json.dumps({FIGURE: found, "committed": committed, "tolerance": TOLERANCE}))
    if committed is None or holds(found["median"], committed):
        return 0
    least = committed * (1 - TOLERANCE)
    print(f"{found['median']:.3f} times dedup's rate, {committed:.3f} committed, {least:.3f} allowed", file=sys.stderr)
    return 1


def measured(load: Load, batch: int, rounds: int) -> dict[str, float]:
    """Return the job's rate as a multiple of the peer's rate: median, minimum and maximum."""
    spark = kit.session()
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-guard-") as root,
        loaded_broker(Path(root), load) as (broker, content),
    ):
        run = partial(throughput.run, spark, broker, load, content, batch)
        variants = {name: partial(run, name) for name in ("job", "dedup")}
        found = interleaved(variants, rounds, Path(root), partial(kit.collect_garbage, spark))
    return ratios(found.runs, "job", "dedup")


def holds(found: float, committed: float) -> bool:
    """Return whether a figure has fallen by no more than the tolerance."""
    return found >= committed * (1 - TOLERANCE)


def committed_figure(results: Path) -> float:
    """Return the figure of the newest results that have one.

    Raises:
        BenchError: If no results have the figure.
    """
    for file in sorted(results.glob("*.json"), reverse=True):
        figure = json.loads(file.read_text(encoding="utf-8")).get(FIGURE)
        if figure is not None:
            return float(figure)
    msg = f"no file in {results} has a {FIGURE}: run bench/report.py --parts guard once, and commit what it writes"
    raise BenchError(msg)


if __name__ == "__main__":
    sys.exit(main())

"""Is the job still as fast as when its figures were committed? Fails if it has lost too much; takes about 3 minutes.

    .venv/bin/python bench/guard.py              # compares with the newest file of bench/results
    .venv/bin/python bench/guard.py --measure    # only measures: what `bench/report.py` commits

The figure is the job's rate as a multiple of `dropDuplicatesWithinWatermark`'s, on a small load, both in turn: seconds
differ from machine to machine, and this ratio of two like things differs less. The median of this run's rounds is
compared with that of several runs. It is noisy all the same, so only a loss beyond the tolerance fails. The last line
is JSON.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import bench_kit as kit
import throughput
from loads import BenchError, Load, loaded_broker
from rounds import MIN_ROUNDS, interleaved, ratios

FIGURE = "guard_vs_dedup"
TOLERANCE = 0.25
"""Such a share may be lost: medians of five rounds on a shared 2-core machine differ by less."""
LOAD = Load(events=2_000_000, principals=200, per_record=20)
BATCH = 500_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="compare with nothing")
    parser.add_argument("--events", type=int, default=LOAD.events)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("--results", type=Path, default=kit.BENCH / "results")
    asked = parser.parse_args()
    committed = None if asked.measure else committed_figure(asked.results)
    found = measured(replace(LOAD, events=asked.events), asked.batch, asked.rounds)
    print(json.dumps({FIGURE: found, "committed": committed, "tolerance": asked.tolerance}))
    if committed is None or holds(found["median"], committed, asked.tolerance):
        return 0
    least = committed * (1 - asked.tolerance)
    print(f"{found['median']:.3f} times dedup's rate, {committed:.3f} committed, {least:.3f} allowed", file=sys.stderr)
    return 1


def measured(load: Load, batch: int, rounds: int) -> dict[str, float]:
    """Return how many times as fast the job is as the peer."""
    spark = kit.session()
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-guard-") as root,
        loaded_broker(Path(root), load) as (broker, content),
    ):
        run = partial(throughput.run, spark, broker, load, content, batch)
        variants = {name: partial(run, name) for name in ("job", "dedup")}
        found = interleaved(variants, rounds, Path(root), partial(kit.settle, spark))
    return ratios(found.runs, "job", "dedup")


def holds(found: float, committed: float, tolerance: float) -> bool:
    """Say whether a figure has not fallen by more than a share of what was committed."""
    return found >= committed * (1 - tolerance)


def committed_figure(results: Path) -> float:
    """Return the figure of the newest results that have one.

    Raises:
        BenchError: If there are none.
    """
    for file in sorted(results.glob("*.json"), reverse=True):
        figure = json.loads(file.read_text(encoding="utf-8")).get(FIGURE)
        if figure is not None:
            return float(figure)
    msg = f"no file in {results} has a {FIGURE}: run bench/report.py --parts guard once, and commit what it writes"
    raise BenchError(msg)


if __name__ == "__main__":
    sys.exit(main())

"""`make fuzz`: runs histories in several processes, and prints each failing one, shrunk, as Python code."""

import argparse
import os
import re
import secrets
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from tests.fuzz.check import differences
from tests.fuzz.generate import history
from tests.fuzz.history import Counts, History
from tests.fuzz.shrink import shrunk

PROCESSES = 2
CHUNK = 50
SHOWN = 3


def wrong(one: History, counts: Counts | None = None) -> list[str]:
    try:
        return differences(one, counts)
    except Exception:
        return [traceback.format_exc()]


def run(seeds: list[int]) -> Counts:
    """Run histories. One with the default rate of false positives may differ where that rate is the cause."""
    counts = Counts()
    for seed in seeds:
        one = history(seed)
        counts.histories += 1
        if wrong(one, counts):
            if (
                one.false_positive_rate > 1e-9
                and not one.is_made_up
                and not wrong(replace(one, false_positive_rate=1e-9))
            ):
                counts.false_positives += 1
            else:
                counts.mismatches.append(seed)
    return counts


def told(seed: int) -> str:
    """Return a failing history as small as it gets: what is wrong, and its code."""
    one = history(seed)
    lines = wrong(one)
    small = shrunk(one, lambda each: kind(wrong(each)) == kind(lines), most=1500)
    return f"--- history {seed}\n{lines[0]}\n--- shrunk\n" + "\n".join([*wrong(small), repr(small)])


def kind(lines: list[str]) -> str:
    """Return what sort of difference it is: shrinking must not slip into another."""
    if not lines:
        return ""
    text = lines[0].strip().splitlines()[-1].split("): ", 1)[-1]
    return re.sub(r"[-\d.]+", "#", text)[:40]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None, help="number of the first history; a new one by default")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    options = parser.parse_args()
    first = secrets.randbelow(10**9) if options.seed is None else options.seed
    last = first + options.histories
    began, total = time.monotonic(), Counts()
    print(f"seed {first}", flush=True)
    chunks = [list(range(at, min(at + CHUNK, last))) for at in range(first, last, CHUNK)]
    with ProcessPoolExecutor(options.processes) as pool:
        for number, counts in enumerate(pool.map(run, chunks), 1):
            add(total, counts)
            if counts.mismatches:
                print(f"mismatching: {counts.mismatches}", flush=True)
            if number % 20 == 0:
                print(f"{summary(total)}, {total.histories / (time.monotonic() - began):.0f} histories/s", flush=True)
    for seed in total.mismatches[:SHOWN]:
        print(told(seed), flush=True)
    print(f"seed {first}: {summary(total)}, {time.monotonic() - began:.0f} s, mismatching: {total.mismatches[:50]}")
    return 1 if total.mismatches else 0


def add(total: Counts, counts: Counts) -> None:
    for name in ("histories", "events", "decisions", "rows", "false_positives"):
        setattr(total, name, getattr(total, name) + getattr(counts, name))
    total.mismatches += counts.mismatches


def summary(counts: Counts) -> str:
    return (
        f"{counts.histories} histories, {counts.events} events, {counts.decisions} decisions, {counts.rows} rows, "
        f"{len(counts.mismatches)} mismatches, {counts.false_positives} differ by a false positive"
    )


if __name__ == "__main__":
    for each in ("OMP_NUM_THREADS", "ARROW_NUM_THREADS"):
        os.environ.setdefault(each, "1")
    sys.exit(main())

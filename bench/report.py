"""Runs the measurements, and writes their results (JSON) and the tables of `docs/performance.md`.

    .venv/bin/python -m bench.report --full                     # `make bench-full`, within 45 minutes
    .venv/bin/python -m bench.report                            # `make bench`, within 8 minutes, into dist/bench
    .venv/bin/python -m bench.report --parts peers --share 0.1  # a short run, to see that a part works
    .venv/bin/python -m bench.report --full --parts             # no part, only the page

Each part runs as a child process until its time is up. A part that fails keeps its earlier results.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from bench.page import page
from jvm.process import run_to_end

ROOT = Path(__file__).parents[1]
RESULTS, QUICK = ROOT / "bench" / "results", ROOT / "dist" / "bench"
PAGE = ROOT / "docs" / "performance.md"
FULL = {
    "lever": 5.0,
    "steady": 6.0,
    "demo": 3.0,
    "enforced": 5.5,
    "big_cluster": 6.0,
    "peers": 6.0,
    "broker_cost": 6.0,
    "growth": 7.5,
}
"""Time limits in minutes, by part."""
SHORT = {"lever": (4.0, 1.0), "steady": (2.5, 0.3), "demo": (1.5, 0.6)}
"""Time limits of `make bench` in minutes, and its share of trials and times."""
BUSY_LOAD = 0.25
"""A machine with a higher load per core before a part begins is busy."""
Results = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run all parts at full size")
    parser.add_argument("--parts", nargs="*", choices=FULL)
    parser.add_argument("--share", type=float, help="share of the full trials and times")
    parser.add_argument("--child", choices=FULL, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(import_module(f"bench.{asked.child}").measure(asked.share)))
        return 0
    parts = {name: (limit, 1.0) for name, limit in FULL.items()} | ({} if asked.full else SHORT)
    chosen = (FULL if asked.full else SHORT) if asked.parts is None else asked.parts
    folder, written = (RESULTS, PAGE) if asked.full else (QUICK, QUICK / PAGE.name)
    folder.mkdir(parents=True, exist_ok=True)
    known, today = max(folder.glob("*.json"), default=None), f"{datetime.now(timezone.utc):%Y-%m-%d}"
    results = json.loads(known.read_text(encoding="utf-8")) if known else {"machine": {}, "figures": {}, "details": {}}
    failed = list[str]()
    for name in chosen:
        (minutes, share), is_busy = parts[name], os.getloadavg()[0] > BUSY_LOAD * (os.cpu_count() or 1)
        found = measured(name, asked.share or share, minutes * 60)
        failed += [] if found else [name]
        results = merged(results, found, today, ", busy machine" if is_busy else "") | {"machine": machine()}
        (folder / f"{today}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    written.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(f"{written}; failed: {', '.join(failed) or 'none'}")
    return len(failed)


def measured(name: str, share: float, limit_s: float) -> Results:
    """Run one part, and return what it found; nothing if it failed or its time was up."""
    print(f"{name}: at most {limit_s / 60:g} min", flush=True)
    begin = time.monotonic()
    # A part whose time is up leaves its files here. The short name leaves room for paths of sockets.
    with tempfile.TemporaryDirectory(prefix="pq-bench-", ignore_cleanup_errors=True) as folder:
        child = (sys.executable, "-m", "bench.report", "--child", name, "--share", str(share))
        try:
            code, said = run_to_end(("/usr/bin/env", f"TMPDIR={folder}", *child), limit_s)
        except subprocess.TimeoutExpired:
            code, said = 1, "its time was up"
    print(f"{name}: {time.monotonic() - begin:.0f} s{': ' + said[-4000:] if code else ''}", flush=True)
    found: Results = {} if code else json.loads(said.splitlines()[-1])
    return found


def merged(before: Results, found: Results, date: str, note: str) -> Results:
    """Return results with a part's figures, each with its date, and with a part's details."""
    figures = {key: {**value, "date": date, "note": note} for key, value in found.get("figures", {}).items()}
    more = {"figures": before["figures"] | figures, "details": before["details"] | found.get("details", {})}
    return {**before, **more}


def machine() -> dict[str, object]:
    """Return a description of this machine and of the versions measured."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return {
        "CPU": cpu.partition(": ")[2],
        "cores": len(os.sched_getaffinity(0)),
        "memory GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "Python": platform.python_version(),
        "Spark": metadata.version("pyspark"),
    }


if __name__ == "__main__":
    sys.exit(main())

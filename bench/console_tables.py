"""How long the console takes: its answers, and its pages in a real Chromium, on the demo's and on large tables.

    python bench/console_tables.py [--runs 7] [--files-per-day 1]

The large ones are 30 days of 2,000 principals in rows of an hour: 1.44 million. Answers are never taken from memory.
"""

import argparse
import functools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import httpx2

ROOT = Path(__file__).parents[1]
ANSWERS = ("overview", "offenders", "headroom", "principal?name={who}", "principal?name={who}&hours=720", "occupancy")
PAGES = ("", "throttled", "headroom", "occupancy", "principal?name={who}", "principal?name={who}&hours=720")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--files-per-day", type=int, default=1, help="1: as `maintain` leaves them; 24: as they came")
    arguments = parser.parse_args()
    # The tables and the browser are those of the tests.
    from tests.kits import browser_kit, console_kit

    found = {}
    with tempfile.TemporaryDirectory() as folder, browser_kit.chromium(f"{folder}/profile") as browser:
        browser.look()
        demo = console_kit.demo_tables(f"{folder}/demo")
        large = console_kit.large_tables(f"{folder}/large", 24 // arguments.files_per_day)
        for kind, tables, who in (("demo", demo, "User:mallory"), ("large", large, "User:service-0010")):
            with (
                console_kit.serving(tables, fresh_s=0) as address,
                httpx2.Client(base_url=f"{address}/api/", timeout=None) as client,
            ):
                # The libraries load with the first answer; the command does that before it says its address.
                answer(client, "overview")
                asked = repeat(arguments.runs, ANSWERS, who, functools.partial(answer, client))
                shown = repeat(arguments.runs, PAGES, who, functools.partial(show, browser, address))
            found[kind] = {
                "answers_ms": {name: spread([time_ms for time_ms, _ in times]) for name, times in asked.items()},
                "answers_cpu_ms": {name: spread([cpu_ms for _, cpu_ms in times]) for name, times in asked.items()},
                "pages_ms": {name or "overview": spread(times) for name, times in shown.items()},
            }
    found["load_average"] = os.getloadavg()
    print(json.dumps(found, indent=2))


def repeat(runs, names, who, call):
    return {name: [call(name.format(who=who)) for _ in range(runs)] for name in names}


def show(browser, address, page):
    return browser.open(f"{address}/#/{page}")


def answer(client, path):
    """Return how long an answer takes and what it costs the processors; the server is a thread of ours."""
    started, cpu = time.perf_counter(), time.process_time()
    client.get(path).raise_for_status()
    return (time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000


def spread(times_ms):
    """Return the least, the median and the greatest."""
    return [round(time_ms) for time_ms in (min(times_ms), statistics.median(times_ms), max(times_ms))]


if __name__ == "__main__":
    main()

"""Runs the benchmarks, keeps what they found in `bench/results/<date>.json`, and writes `docs/performance.md` from it.

    .venv/bin/python bench/report.py                            # what `make bench` runs, within 20 minutes
    .venv/bin/python bench/report.py --full                     # what `make bench-full` runs, within 2 hours
    .venv/bin/python bench/report.py --parts latency,core       # some of it; the day's other parts stay as they are
    .venv/bin/python bench/report.py --render-only              # only the page and its plots, from the newest results

Each part runs scripts of this folder as processes of their own. Kept are their commands, the day, and the JSON of their
last lines.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import bench_kit as kit
from headline import headline
from page import page

from broker.process import reading

RESULTS = kit.BENCH / "results"
DOCS = kit.BENCH.parent / "docs"

Command = tuple[str, ...]
_PEERS = "source,source-tuned,job,job-each,dedup,approximate,set,tws"
_MAIN = "source,source-tuned,job,dedup,set,tws"
"""What the targets at other sizes are about."""
_FLOOD = ("throughput.py", "--events", "1250000", "--principals", "20", "--flood", "1000000", "--variants", "job,dedup")


@dataclass(frozen=True)
class Part:
    """What is run for a section of the page.

    Attributes:
        quick: Commands of `make bench`; none where it leaves the part out.
        full: Commands of `make bench-full`.
    """

    quick: tuple[Command, ...]
    full: tuple[Command, ...]


def _throughput(principals: str, events: int, batch: int, rounds: int, variants: str = _PEERS) -> Command:
    sizes = ("--principals", principals, "--events", str(events), "--batch", str(batch))
    return ("throughput.py", *sizes, "--rounds", str(rounds), "--variants", variants)


def _latency(rate: int, principals: int, sink: str, trials: int = 30) -> Command:
    of_load = ("--rate", str(rate), "--principals", str(principals))
    return ("latency.py", *of_load, "--sink", sink, "--trials", str(trials))


def _sustained(trigger_s: int, principals: int) -> Command:
    of_stream = ("--trigger-seconds", str(trigger_s), "--principals", str(principals))
    search = ("--first-rate", "100000", "--steps", "2", "--trial-seconds", str(20 + 2 * trigger_s))
    return ("sustained.py", *of_stream, *search, "--confirm-seconds", "300")


PARTS = {
    "throughput": Part(
        (_throughput("2000", 1_000_000, 250_000, 3),),
        (
            _throughput("2000", 2_000_000, 500_000, 3),
            _throughput("20,200", 1_000_000, 250_000, 2, _MAIN),
            _throughput("20000", 750_000, 250_000, 2, _MAIN),
        ),
    ),
    "flood": Part((_FLOOD,), (_FLOOD,)),
    "latency": Part(
        (_latency(5_000, 200, "deltalake"),),
        tuple(
            _latency(rate, principals, sink, trials)
            for rate, principals, trials in ((5_000, 200, 30), (20_000, 200, 30), (5_000, 2_000, 20))
            for sink in ("deltalake", "delta-spark")
        ),
    ),
    "sustained": Part((), tuple(_sustained(trigger_s, each) for trigger_s in (1, 5) for each in (200, 2000))),
    "state": Part(
        (("state_size.py", "--batches", "50", "--variants", "job"),),
        (
            ("state_size.py", "--variants", "job"),
            ("state_size.py", "--variants", "job-each", "--batches", "50"),
        ),
    ),
    "core": Part((("layered_peer.py", "--rounds", "3"),), (("layered_peer.py",),)),
    "scaleout": Part((), (("scaleout.py", "--rounds", "2"),)),
    "cost": Part((), (("cost.py", "--batches", "25000,250000"),)),
    "guard": Part((("guard.py", "--measure"),), (("guard.py", "--measure"),)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all parts at full size")
    parser.add_argument("--parts", help=f"some of {','.join(PARTS)}; all by default")
    parser.add_argument("--render-only", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=DOCS)
    asked = parser.parse_args()
    if asked.render_only:
        file = max(asked.results.glob("*.json"))
        result = json.loads(file.read_text(encoding="utf-8"))
    else:
        today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
        file = asked.results / f"{today}.json"
        result = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        for name in asked.parts.split(",") if asked.parts else PARTS:
            part = PARTS[name]
            commands = part.full if asked.full else part.quick
            if commands:
                # Written after each part: an hour's work does not depend on the last minute.
                result = merged(result, name, [measured(each, today) for each in commands], kit.machine(), today)
                write(file, result)
    if not result:
        msg = f"bench/report.py without --full measures nothing of {asked.parts}: add --full"
        raise kit.BenchError(msg)
    render(result, asked.docs, file.name)


def measured(command: Command, date: str) -> dict[str, Any]:
    """Run one script, show what it says, and return the JSON of its last line."""
    shown = " ".join(("bench/" + command[0], *command[1:]))
    print(f"== {shown}", flush=True)
    begin, last = time.monotonic(), ""
    with reading([sys.executable, str(kit.BENCH / command[0]), *command[1:]]) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                last = line
            else:
                print(line, end="", flush=True)
        code = process.wait()
    if code or not last:
        msg = f"{shown} ended with exit code {code}: see above"
        raise kit.BenchError(msg)
    took_s = round(time.monotonic() - begin)
    return {"command": shown, "date": date, "took_s": took_s, "result": json.loads(last)}


def merged(
    before: dict[str, Any], name: str, runs: Sequence[dict[str, Any]], machine: dict[str, Any], date: str
) -> dict[str, Any]:
    """Return results with one part replaced, and the top-level numbers as they follow from all parts."""
    known = before.get("parts", {})
    parts = {each: list(runs) if each == name else known[each] for each in PARTS if each in known or each == name}
    return {"date": date, **headline(parts), "machine": machine, "parts": parts}


def write(file: Path, result: dict[str, Any]) -> None:
    """Write results, all or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    new.replace(file)


def render(result: dict[str, Any], docs: Path, source: str) -> None:
    """Write the page and its plots."""
    from plots import draw_all

    drawn = draw_all(result, docs / "img")
    (docs / "performance.md").write_text(page(result, source, drawn), encoding="utf-8")
    print(f"{docs / 'performance.md'} and {len(drawn)} plots", flush=True)


if __name__ == "__main__":
    main()

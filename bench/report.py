"""Runs the benchmarks, writes their results to `bench/results/<date>.json`, and makes `docs/performance.md`.

    .venv/bin/python bench/report.py --full                     # `make bench-full`, within 75 minutes
    .venv/bin/python bench/report.py                            # `make bench`, within 8 minutes, into dist/bench
    .venv/bin/python bench/report.py --full --parts latency,core    # some parts; the others keep their results
    .venv/bin/python bench/report.py --render-only              # only the page, from the newest results

Each part runs scripts of this folder as child processes, and ends them when its time is up. If a script fails, its
earlier results stay. Results consist of the commands, the day, and the JSON of the commands' last lines.
"""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench import kit
from bench.headline import headline
from bench.loads import BenchError
from bench.page import page
from jvm.process import reading

RESULTS = kit.BENCH / "results"
DOCS = kit.BENCH.parent / "docs"
QUICK = kit.BENCH.parent / "dist" / "bench"
"""Folder for the output of a quick run. The page in `docs/` is always from the last full run."""
CLEAN_UP_S = 60

Command = tuple[str, ...]
_MAIN = "job,dedup,set,tws"
"""The job, and the peers against which it has a target."""
_OTHERS = "job,job-each,job-delta-spark"
_FLOOD = ("--events", "1250000", "--principals", "20", "--flood", "1000000", "--variants", "job,dedup")


@dataclass(frozen=True)
class Part:
    """Commands of a section of the page.

    Attributes:
        quick: Commands of `make bench`; empty if `make bench` leaves the part out.
        full: Commands of `make bench-full`.
        quick_minutes: Time limit of `make bench`.
        full_minutes: Time limit of `make bench-full`.
    """

    quick: tuple[Command, ...]
    full: tuple[Command, ...]
    quick_minutes: float
    full_minutes: float


def _throughput(principals: str, events: int, variants: str = _MAIN, *more: str) -> Command:
    """Return a command with four large batches, so that a batch's fixed time counts little. The first only warms up."""
    sizes = ("--principals", principals, "--events", str(events), "--batch", str(events // 4))
    return ("throughput.py", *sizes, "--variants", variants, *more)


def _latency(rate: int, principals: int, sink: str, trials: int = 30) -> Command:
    of_load = ("--rate", str(rate), "--principals", str(principals))
    return ("latency.py", *of_load, "--sink", sink, "--trials", str(trials))


def _sustained(trigger_s: int, principals: int, first_rate: int) -> Command:
    of_stream = ("--trigger-seconds", str(trigger_s), "--principals", str(principals))
    search = ("--first-rate", str(first_rate), "--steps", "2", "--trial-seconds", str(20 + 2 * trigger_s))
    return ("sustained.py", *of_stream, *search, "--confirm-seconds", "60")


def _hold(trigger: str, trials: int) -> Command:
    return ("enforce.py", "--trigger", trigger, "--trials", str(trials))


PARTS = {
    "throughput": Part(
        (),
        (
            _throughput("2000", 4_000_000),
            _throughput("20,200", 4_000_000),
            _throughput("20000", 1_000_000, "job,dedup"),
            _throughput("2000", 2_000_000, "job,dedup", "--per-record", "1"),
            _throughput("2000", 4_000_000, _OTHERS, "--rounds", "3"),
        ),
        0,
        22,
    ),
    "flood": Part((), (("throughput.py", *_FLOOD),), 0, 3),
    "latency": Part(
        (),
        (
            _latency(5_000, 200, "deltalake"),
            _latency(20_000, 200, "deltalake"),
            _latency(5_000, 200, "delta-spark", 20),
        ),
        0,
        6,
    ),
    "hold": Part((_hold("1 second", 15),), (_hold("1 second", 30), _hold("asap", 30)), 2.5, 6.5),
    "idle": Part((("idle.py", "--warm-up", "40", "--seconds", "30"),), (("idle.py",),), 2, 3.5),
    "principals": Part((("principals.py",),), (("principals.py",),), 0.5, 0.5),
    "broker": Part((), (("plugin_cost.py", "--brokers", "5", "--rounds", "5", "--warm-up", "10"),), 0, 11),
    "sustained": Part((), (_sustained(1, 200, 200_000), _sustained(5, 2000, 200_000)), 0, 13.5),
    "state": Part((), (("state_size.py",),), 0, 0.5),
    "core": Part((), (("layered_peer.py", "--rounds", "3"),), 0, 1.5),
    "scaleout": Part((), (("scaleout.py", "--rounds", "2"),), 0, 4),
    "guard": Part((("guard.py", "--measure"),), (("guard.py", "--measure"),), 2.5, 2.5),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run all parts at full size")
    parser.add_argument("--parts", help=f"some of {','.join(PARTS)}; all by default")
    parser.add_argument("--render-only", action="store_true")
    asked = parser.parse_args()
    is_quick = not (asked.full or asked.render_only)
    results, docs = (QUICK, QUICK) if is_quick else (RESULTS, DOCS)
    known = max(results.glob("*.json"), default=None)
    failures: dict[str, str] = {}
    if asked.render_only:
        file = known
    else:
        today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
        file = results / f"{today}.json"
        names = asked.parts.split(",") if asked.parts else list(PARTS)
        if asked.parts and (left_out := [each for each in names if not _commands(each, full=asked.full)]):
            parser.error(f"parts only of --full: {', '.join(left_out)}")
        print("\n".join(plan(names, full=asked.full)), flush=True)
        failures = measure(names, file, {} if known is None else read(known), today, full=asked.full)
    if file is None or not file.exists():
        msg = f"{results} has no results: {failures or 'nothing was measured'}"
        raise BenchError(msg)
    found = read(file)
    # Compute the headline again, because its definition may be newer than the results.
    render(found | headline(found["parts"]), docs, file.name)
    for command, reason in failures.items():
        print(f"{command} failed: {reason}", file=sys.stderr)
    return 1 if failures else 0


def read(file: Path) -> dict[str, Any]:
    """Return the results in a file."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def plan(names: Iterable[str], *, full: bool) -> list[str]:
    """Return the parts that will run, and their time limits."""
    found = [(name, _commands(name, full=full), _minutes(name, full=full)) for name in names]
    total = sum(minutes for _, commands, minutes in found if commands)
    lines = [f"{name:12} {minutes:>4g} min at most, {len(runs)} runs" for name, runs, minutes in found if runs]
    return [*lines, f"{'all':12} {total:>4g} min at most; leave the machine alone meanwhile"]


def measure(names: Iterable[str], file: Path, before: Mapping[str, Any], today: str, *, full: bool) -> dict[str, str]:
    """Run some parts, and return the commands that failed, and why. Their earlier results stay.

    This writes the file after each part.
    """
    result, failures = dict(before), {}
    for name in names:
        runs, known = [], {run["command"]: run for run in result.get("parts", {}).get(name, [])}
        give_up_at = time.monotonic() + _minutes(name, full=full) * 60
        for command in _commands(name, full=full):
            try:
                runs.append(measured(command, today, give_up_at - time.monotonic()))
            except BenchError as error:
                failures[shown(command)] = str(error)
                runs += [known[each] for each in [shown(command)] if each in known]
        if runs:
            result = merged(result, name, runs, kit.machine(), today)
            write(file, result)
    return failures


def shown(command: Command) -> str:
    """Return a command as the page shows it."""
    return " ".join(("bench/" + command[0], *command[1:]))


def _commands(name: str, *, full: bool) -> tuple[Command, ...]:
    return PARTS[name].full if full else PARTS[name].quick


def _minutes(name: str, *, full: bool) -> float:
    return PARTS[name].full_minutes if full else PARTS[name].quick_minutes


def measured(command: Command, date: str, limit_s: float) -> dict[str, Any]:
    """Run one script, print its output, and return the JSON of its last line.

    Raises:
        BenchError: If the script fails, or takes longer than `limit_s`.
    """
    if limit_s <= 0:
        msg = "the time of its part was up"
        raise BenchError(msg)
    print(f"== {shown(command)}", flush=True)
    begin, last = time.monotonic(), ""
    with reading([sys.executable, str(kit.BENCH / command[0]), *command[1:]]) as process:
        # On SIGINT, a script ends its brokers and removes its folders.
        timers = [threading.Timer(limit_s, process.send_signal, [signal.SIGINT])]
        timers.append(threading.Timer(limit_s + CLEAN_UP_S, process.kill))
        for timer in timers:
            timer.start()
        for line in process.stdout or ():
            if line.startswith("{"):
                last = line
            else:
                print(line, end="", flush=True)
        code = process.wait()
        for timer in timers:
            timer.cancel()
    took_s = time.monotonic() - begin
    if code or not last:
        msg = "the time of its part was up" if took_s >= limit_s else f"it ended with exit code {code}, see above"
        raise BenchError(msg)
    return {"command": shown(command), "date": date, "took_s": round(took_s), "result": json.loads(last)}


def merged(
    before: Mapping[str, Any], name: str, runs: Sequence[dict[str, Any]], machine: dict[str, Any], date: str
) -> dict[str, Any]:
    """Return the results with one part replaced, and with a new headline."""
    known = before.get("parts", {})
    parts = {each: list(runs) if each == name else known[each] for each in PARTS if each in known or each == name}
    return {"date": date, **headline(parts), "machine": machine, "parts": parts}


def write(file: Path, result: dict[str, Any]) -> None:
    """Write results atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    new.replace(file)


def render(result: dict[str, Any], docs: Path, source: str) -> None:
    """Write the page."""
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "performance.md").write_text(page(result, source), encoding="utf-8")
    print(docs / "performance.md", flush=True)


if __name__ == "__main__":
    sys.exit(main())

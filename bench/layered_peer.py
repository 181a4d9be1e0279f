"""Compares the cost of a ledger with that of the filter that KIP-936 names, commons-collections' `LayeredBloomFilter`.

    .venv/bin/python bench/layered_peer.py              # 5 rounds
    .venv/bin/python bench/layered_peer.py --rounds 1   # a quick look

`bench/LayeredPeer.java` uses the filter as the KIP says, in a warm JVM. It only looks PIDs up and stores them. A
ledger, in Python, also has tokens and a rate. Each figure of a ledger is the least of several repeats, because other
load only increases it. The two take turns. Ivy, which comes with pyspark, fetches the jar once into
`bench/.jars`. The last line is JSON.
"""

import argparse
import json
import os
import time
from pathlib import Path

import pyspark

from bench import kit
from bench.loads import BenchError
from bench.rounds import spread
from jvm.java import find_java
from jvm.process import run_to_end
from quota.config import QuotaConfig
from quota.limits import Limit
from state.events import CHARGED, Deployment, Events
from state.ledger import Ledger

JARS = kit.BENCH / ".jars"
PEER = kit.BENCH / "LayeredPeer.java"
JAVA_ROUNDS = 7
REPEATS = 5
LIMIT_S = 600
BEGIN_MS = 1_790_000_000_000 // 900_000 * 900_000
AMPLE = Limit(1e9, "user")
Case = tuple[int, int]
"""Number of PIDs that a ledger remembers, and number of layers."""
CASES: list[Case] = [(size, layers) for size in (100, 100_000) for layers in (1, 4)]
SHOWN = (100, 4)
"""The case in the headline: a typical principal, with the default number of layers."""
Timed = dict[Case, tuple[float, float]]
"""Nanoseconds of a look-up and of an admission, by case."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    rounds = [(ours(), theirs()) for _ in range(asked.rounds)]
    found = {f"{size}_pids_{layers}_layers": compared(rounds, (size, layers)) for size, layers in CASES}
    for name, figures in found.items():
        for what, figure in figures.items():
            print(f"{name:24} {what:18} {figure['median']:>10,.2f}  ({figure['min']:,.2f} to {figure['max']:,.2f})")
    shown = found[f"{SHOWN[0]}_pids_{SHOWN[1]}_layers"]
    headline = {name: shown[name]["median"] for name in ("lookup_ns", "admit_ns")}
    print(json.dumps({**headline, "rounds": asked.rounds, "cases": found}))


def ours() -> Timed:
    """Time `state.ledger`."""
    return {
        case: (min(known_ns(case) for _ in range(REPEATS)), min(admitted_ns(case) for _ in range(REPEATS)))
        for case in CASES
    }


def known_ns(case: Case) -> float:
    """Return the time of an event whose PID the newest quantum holds."""
    ledger, pids, now_ms = filled(case)
    return timed_ns(ledger, events(pids * (1 + 20_000 // case[0]), now_ms))


def admitted_ns(case: Case) -> float:
    """Return the time of an event whose PID is admitted."""
    ledger, _, now_ms = filled(case)
    return timed_ns(ledger, events(list(range(10**9, 10**9 + 20_000)), now_ms))


def filled(case: Case) -> tuple[Ledger, list[int], int]:
    """Return a filled ledger, the PIDs in its newest quantum, and the time of their events in ms."""
    size, layers = case
    config = QuotaConfig()
    ledger, share = Ledger("User:a", Deployment(config, salt=7)), max(1, size // layers)
    for layer in range(layers):
        pids = list(range(layer * share, (layer + 1) * share))
        now_ms = BEGIN_MS + layer * config.quantum_ms
        ledger.process(events(pids, now_ms), AMPLE)
    return ledger, pids, now_ms


def events(pids: list[int], now_ms: int) -> Events:
    size = len(pids)
    return Events(pids, [now_ms] * size, [("c", "")] * size, [CHARGED] * size, [-1] * size)


def timed_ns(ledger: Ledger, given: Events) -> float:
    begin = time.perf_counter_ns()
    ledger.process(given, AMPLE)
    return round((time.perf_counter_ns() - begin) / len(given.pids), 1)


def theirs() -> Timed:
    """Time commons-collections in a JVM of its own."""
    sizes = [str(number) for case in CASES for number in case]
    rate = str(QuotaConfig().false_positive_rate)
    command = [find_java(), "-cp", str(collections_jar()), str(PEER), str(JAVA_ROUNDS), rate, *sizes]
    code, output = run_to_end(command, LIMIT_S)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if code or len(lines) != len(CASES):
        msg = f"{PEER.name} ended with exit code {code}: {output.strip()[-400:]}. It needs a JDK, not only a JRE"
        raise BenchError(msg)
    return {(line["size"], line["layers"]): (line["lookup_ns"], line["admit_ns"]) for line in lines}


def compared(rounds: list[tuple[Timed, Timed]], case: Case) -> dict[str, dict[str, float]]:
    """Return both times, and their ratio within each round, for one case."""
    figures = {}
    for place, name in enumerate(("lookup", "admit")):
        pairs = [(mine[case][place], other[case][place]) for mine, other in rounds]
        figures[f"{name}_ns"] = spread(mine for mine, _ in pairs)
        figures[f"{name}_theirs_ns"] = spread(other for _, other in pairs)
        figures[f"{name}_ratio"] = spread(mine / other for mine, other in pairs)
    return figures


def collections_jar() -> Path:
    """Return the jar that `bench/ivy.xml` pins. Fetch it if it's missing."""
    name = "commons-collections4-*.jar"
    if not (found := sorted(JARS.glob(name))):
        (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
        settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
        command = [find_java(), "-jar", str(ivy), *(["-settings", settings] if settings else [])]
        command += ["-ivy", str(kit.BENCH / "ivy.xml"), "-cache", str(JARS / ".ivy"), "-confs", "bench"]
        command += ["-retrieve", f"{JARS}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
        _, output = run_to_end(command, LIMIT_S)
        found = sorted(JARS.glob(name))
        if not found:
            msg = f"ivy could not fetch {name} into {JARS}: {output.strip()[-400:]}. Check the network or proxy"
            raise BenchError(msg)
    return found[-1]


if __name__ == "__main__":
    main()

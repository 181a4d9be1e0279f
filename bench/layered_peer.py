"""What does the core cost against the filter that KIP-936 names, commons-collections' `LayeredBloomFilter`?

    .venv/bin/python bench/layered_peer.py              # 5 rounds
    .venv/bin/python bench/layered_peer.py --rounds 1   # a quick look

`bench/LayeredPeer.java` drives it as the KIP says, in a warm JVM; the two take turns. Theirs only looks PIDs up and
stores them. Ours does all that a ledger does with an event, tokens and rate included, and is Python. The jar is fetched
once into `bench/.jars`, by the Ivy that pyspark brings. The last line is JSON.
"""

import argparse
import json
import os
from pathlib import Path

import bench_kit as kit
import core
import pyspark
from loads import BenchError
from rounds import spread

from jvm.java import find_java
from jvm.process import run_to_end
from quota.config import QuotaConfig

JARS = kit.BENCH / ".jars"
PEER = kit.BENCH / "LayeredPeer.java"
JAVA_ROUNDS = 7
LIMIT_S = 600
SHOWN = (100, 4)
"""PIDs and layers of the figures that stand for all: a principal as most are, with the default number of layers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    cases = [(size, layers) for size in core.SIZES for layers in core.LAYERS]
    rounds = [(ours(cases), theirs(cases)) for _ in range(asked.rounds)]
    found = {f"{size}_pids_{layers}_layers": compared(rounds, (size, layers)) for size, layers in cases}
    for name, figures in found.items():
        for what, figure in figures.items():
            print(f"{name:24} {what:18} {figure['median']:>10,.2f}  ({figure['min']:,.2f} to {figure['max']:,.2f})")
    size, layers = SHOWN
    shown = found[f"{size}_pids_{layers}_layers"]
    headline = {name: shown[name]["median"] for name in ("lookup_ns", "admit_ns")}
    print(json.dumps({**headline, "rounds": asked.rounds, "cases": found}))


Timed = dict[tuple[int, int], tuple[float, float]]
"""By PIDs and layers: nanoseconds of a look-up and of an admission."""


def ours(cases: list[tuple[int, int]]) -> Timed:
    """Time `state.ledger`."""
    return {case: (core.nanoseconds("known", *case), core.nanoseconds("admitted", *case)) for case in cases}


def theirs(cases: list[tuple[int, int]]) -> Timed:
    """Time commons-collections in a JVM of its own."""
    sizes = [str(number) for case in cases for number in case]
    rate = str(QuotaConfig().false_positive_rate)
    command = [find_java(), "-cp", str(collections_jar()), str(PEER), str(JAVA_ROUNDS), rate, *sizes]
    code, told = run_to_end(command, LIMIT_S)
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    if code or len(lines) != len(cases):
        msg = f"{PEER.name} ended with exit code {code}: {told.strip()[-400:]}. It needs a JDK, not only a JRE"
        raise BenchError(msg)
    return {(line["size"], line["layers"]): (line["lookup_ns"], line["admit_ns"]) for line in lines}


def compared(rounds: list[tuple[Timed, Timed]], case: tuple[int, int]) -> dict[str, dict[str, float]]:
    """Return ours, theirs and their ratio for one case over all rounds; both of a ratio are of the same round."""
    figures = {}
    for place, name in enumerate(("lookup", "admit")):
        pairs = [(mine[case][place], other[case][place]) for mine, other in rounds]
        figures[f"{name}_ns"] = spread(mine for mine, _ in pairs)
        figures[f"{name}_theirs_ns"] = spread(other for _, other in pairs)
        figures[f"{name}_ratio"] = spread(mine / other for mine, other in pairs)
    return figures


def collections_jar() -> Path:
    """Return the jar that `bench/ivy.xml` pins, fetched if it is not there yet."""
    name = "commons-collections4-*.jar"
    if not (found := sorted(JARS.glob(name))):
        (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
        settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
        command = [find_java(), "-jar", str(ivy), *(["-settings", settings] if settings else [])]
        command += ["-ivy", str(kit.BENCH / "ivy.xml"), "-cache", str(JARS / ".ivy"), "-confs", "bench"]
        command += ["-retrieve", f"{JARS}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
        _, told = run_to_end(command, LIMIT_S)
        found = sorted(JARS.glob(name))
        if not found:
            msg = f"ivy could not fetch {name} into {JARS}: {told.strip()[-400:]}. Check the network or proxy"
            raise BenchError(msg)
    return found[-1]


if __name__ == "__main__":
    main()

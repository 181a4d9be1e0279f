"""How much faster is the job with two workers than with one? A standalone Spark cluster of single-core workers.

    .venv/bin/python bench/scaleout.py

The workers take turns: one, two, one, two, on the same load. A worker has one task at a time, and with all its
processes (executor, Python workers) may use one core only, each another. Driver and broker run beside them on this
machine: with two cores the second worker shares its core with both. The last line is JSON.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from loads import BenchError, Content, Load, loaded_broker
from process_kit import Place, finished_batches, python_path, run_of
from rounds import Run, ratios, spread

from broker.local.local_broker import LocalBroker
from broker.process import end, run_to_end, start_watched

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
START_S = 300.0
STOP_S = 20.0
RUN_S = 1800
"""A job that takes longer is stuck."""
AT_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
"""Where master and workers listen: on this machine only."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_500_000)
    parser.add_argument("--principals", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--per-record", type=int, default=20, help="events, on average; 1: version 1 of the records")
    parser.add_argument("--variant", default="job")
    asked = parser.parse_args()
    load = Load(asked.events, asked.principals, per_record=asked.per_record)
    runs: dict[str, list[Run]] = {"1 worker": [], "2 workers": []}
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-scaleout-") as folder,
        loaded_broker(Path(folder), load) as (broker, content),
        python_path(),
    ):
        os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
        for number in range(asked.rounds):
            for workers, name in enumerate(runs, start=1):
                place = Path(folder, f"{number}-{workers}")
                place.mkdir()
                runs[name].append(run(place, broker, load, content, workers, asked))
                print(f"  {name:12} {runs[name][-1].rate:>10,.0f} events/s", flush=True)
    speedup = ratios(runs, "2 workers", "1 worker")
    rates = {name: spread(each.rate for each in found) for name, found in runs.items()}
    print(json.dumps(vars(asked) | {"speedup": speedup, "events_per_second": rates}))


def run(
    folder: Path, broker: LocalBroker, load: Load, content: Content, workers: int, asked: argparse.Namespace
) -> Run:
    """Run the job over the load on a fresh cluster."""
    place = Place(broker, load.topic, folder)
    with cluster(folder, workers) as master:
        more = ("--master", master, "--max-offsets-per-trigger", str(round(asked.batch / content.events_per_record)))
        code, told = run_to_end([sys.executable, *place.arguments(asked.variant, "available-now", *more)], RUN_S)
    if code:
        msg = f"the job on {workers} workers ended with exit code {code}: {told.strip()[-600:]}"
        raise BenchError(msg)
    return run_of(finished_batches(place.checkpoint, place.topic), content.events_per_record)


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start a master and so many workers with a core each; gives the master's address."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(spark_process(log, f"{DEPLOY}.master.Master", *AT_LOOPBACK))
        master = said(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            size = ("--cores", "1", "--memory", "2g", "--work-dir", str(folder / "work"))
            stack.enter_context(spark_process(log, f"{DEPLOY}.worker.Worker", *AT_LOOPBACK, *size, master, core=number))
            said(log, "(Successfully registered with master)")
        yield master


@contextmanager
def spark_process(log: Path, *arguments: str, core: int | None = None) -> Iterator[None]:
    """Run a part of the cluster until the block ends; executors end with their worker.

    Args:
        log: Where its output goes.
        arguments: Its class and options.
        core: The only core that it and its children may use, where util-linux is there to say so; None for all.
    """
    log.touch()
    cores = sorted(os.sched_getaffinity(0))
    taskset = shutil.which("taskset")
    pinned = [taskset, "--cpu-list", str(cores[core])] if taskset and core is not None and core < len(cores) else []
    process = start_watched([*pinned, str(SPARK_CLASS), *arguments], log)
    try:
        yield
    finally:
        end(process, STOP_S)


def said(log: Path, pattern: str) -> str:
    """Wait until a log says something, and return its first group."""
    give_up_at = time.monotonic() + START_S
    while not (found := re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))):
        if time.monotonic() > give_up_at:
            msg = f"{log} did not say {pattern!r} within {START_S:.0f} s"
            raise BenchError(msg)
        time.sleep(0.2)
    return found[1]


if __name__ == "__main__":
    main()

"""What does the job gain by a second worker? A standalone Spark cluster of single-core workers.

    .venv/bin/python bench/scaleout.py

The workers take turns: one, two, one, two, on the same load. A worker has one task at a time, and with all its
processes (executor, Python workers) may use one core only, each another. Driver and broker run beside them on this
machine: with two cores the second worker shares its core with both, and rates say little. So CPU time is shown, too: of
workers per event, which a second one should not raise, and of the driver, which stays one whatever their number. The
last line is JSON.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from loads import BenchError, Content, Load, loaded_broker
from noise import Meter
from process_kit import Place, finished_batches, python_path, run_of
from rounds import Run, ratios, spread

from broker.local.local_broker import LocalBroker
from jvm.process import end, reading, start_watched

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
START_S = 300.0
STOP_S = 20.0
GROUPS = {"workers": "deploy.worker.Worker", "driver": "jobs.stream"}
"""Of whose CPU time is told; executors belong to the worker that starts them."""
POLL_S = 0.05
RUN_S = 1800
"""A job that takes longer is stuck."""
AT_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
"""Where master and workers listen: on this machine only."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--principals", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--per-record", type=int, default=20, help="events, on average; 1: version 1 of the records")
    parser.add_argument("--variant", default="job")
    asked = parser.parse_args()
    load = Load(asked.events, asked.principals, per_record=asked.per_record)
    runs: dict[str, list[Run]] = {"1 worker": [], "2 workers": []}
    meters: dict[str, list[Meter]] = {"1 worker": [], "2 workers": []}
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
                found, meter = run(place, broker, load, content, workers, asked)
                runs[name].append(found)
                meters[name].append(meter)
                print(f"  {name:12} {found.rate:>10,.0f} events/s, {cpu(found, meter)}", flush=True)
    speedup = ratios(runs, "2 workers", "1 worker")
    one, two = (statistics.median(each.seconds / each.batches for each in found) for found in runs.values())
    rates = {name: spread(each.rate for each in found) for name, found in runs.items()}
    used = {
        name: used_of([cpu(*each) for each in zip(found, meters[name], strict=True)]) for name, found in runs.items()
    }
    print(
        json.dumps(vars(asked) | {"speedup": speedup, "events_per_second": rates} | {"used": used} | amdahl(one, two))
    )


def amdahl(one_s: float, two_s: float) -> dict[str, float]:
    """Return what of a batch is serial if a second worker takes half of the rest, and what four and eight would give.

    Args:
        one_s: Seconds of a batch with one worker.
        two_s: The same with two. Where they wait for a core, too, what is serial comes out too large.
    """
    serial_s = min(max(2 * two_s - one_s, 0.0), one_s)
    speedups = {f"speedup_of_{n}": round(one_s / (serial_s + (one_s - serial_s) / n), 2) for n in (2, 4, 8)}
    return {"batch_s": round(one_s, 3), "serial_s": round(serial_s, 3), **speedups}


def cpu(run: Run, meter: Meter) -> dict[str, float]:
    """Return CPU time of workers and driver in us per event, and how many cores all took, the broker among them."""
    us = {group: round(meter.seconds(group) / run.events * 1e6, 2) for group in GROUPS}
    return us | {"cores": round(meter.seconds() / run.seconds, 2)}


def used_of(found: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the spread of each figure."""
    return {name: spread(each[name] for each in found) for name in found[0]}


def run(
    folder: Path, broker: LocalBroker, load: Load, content: Content, workers: int, asked: argparse.Namespace
) -> tuple[Run, Meter]:
    """Run the job over the load on a fresh cluster; measured is what comes after the first batch."""
    place, told = Place(broker, load.topic, folder, load.version), deque[str](maxlen=20)
    with cluster(folder, workers) as master:
        more = ("--master", master, "--max-offsets-per-trigger", str(round(asked.batch / content.events_per_record)))
        command = [sys.executable, *place.arguments(asked.variant, "available-now", *more)]
        with reading(command) as process:
            limit = threading.Timer(RUN_S, process.kill)
            limit.start()
            reader = threading.Thread(target=told.extend, args=[process.stdout or ()], daemon=True)
            reader.start()
            while process.poll() is None and not (place.checkpoint / "commits" / "0").exists():
                time.sleep(POLL_S)
            with Meter(GROUPS) as meter:
                code = process.wait()
            limit.cancel()
            reader.join()
    if code:
        msg = f"the job on {workers} workers ended with exit code {code}: {''.join(told)[-600:]}"
        raise BenchError(msg)
    return run_of(finished_batches(place.checkpoint, place.topic), content.events_per_record), meter


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

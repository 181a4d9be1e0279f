"""Measures what the job gains from a second worker, on a standalone Spark cluster of single-core workers.

    .venv/bin/python bench/scaleout.py

Runs with one and two workers take turns on the same load. Each worker has its own core, which all its processes share.
Driver and broker run on the same machine. If it has two cores, they share the second worker's core, so compare CPU time
per event rather than rates. The last line is JSON.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from bench.loads import BenchError, Content, Load, loaded_broker
from bench.noise import Meter
from bench.processes import Place, finished_batches, run_of
from bench.rounds import Run, ratios, spread
from jvm.process import end, reading, start_watched

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
START_S = 300.0
STOP_S = 20.0
GROUPS = {"workers": "deploy.worker.Worker", "driver": "jobs.stream"}
"""Groups of processes whose CPU time is measured. Executors belong to the worker that starts them."""
POLL_S = 0.05
RUN_S = 1800
"""Time limit of a job. A job that takes longer is stuck."""
AT_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
EVENTS_PER_RECORD = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--principals", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    load = Load(asked.events, asked.principals, per_record=EVENTS_PER_RECORD)
    runs: dict[str, list[Run]] = {"1 worker": [], "2 workers": []}
    meters: dict[str, list[Meter]] = {"1 worker": [], "2 workers": []}
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-scaleout-") as folder,
        loaded_broker(Path(folder), load) as (broker, content),
    ):
        os.environ |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        for number in range(asked.rounds):
            for workers, name in enumerate(runs, start=1):
                place = Path(folder, f"{number}-{workers}")
                place.mkdir()
                found, meter = run(Place(broker, load.topic, place), content, workers, asked.batch)
                runs[name].append(found)
                meters[name].append(meter)
                print(f"  {name:12} {found.rate:>10,.0f} events/s, {cpu(found, meter)}", flush=True)
    speedup = ratios(runs, "2 workers", "1 worker")
    rates = {name: spread(each.rate for each in found) for name, found in runs.items()}
    used = {name: used_of(found, meters[name]) for name, found in runs.items()}
    print(json.dumps(vars(asked) | {"speedup": speedup, "events_per_second": rates, "used": used}))


def cpu(run: Run, meter: Meter) -> dict[str, float]:
    """Return the CPU time of workers and driver in us per event, and the cores in use, including the broker's."""
    us = {group: round(meter.seconds(group) / run.events * 1e6, 2) for group in GROUPS}
    return us | {"cores": round(meter.seconds() / run.seconds, 2)}


def used_of(runs: Sequence[Run], meters: Sequence[Meter]) -> dict[str, dict[str, float]]:
    """Return the spread of each figure of `cpu`."""
    found = [cpu(*each) for each in zip(runs, meters, strict=True)]
    return {name: spread(each[name] for each in found) for name in found[0]}


def run(place: Place, content: Content, workers: int, batch: int) -> tuple[Run, Meter]:
    """Run the job over the load on a new cluster. The first batch doesn't count."""
    output = deque[str](maxlen=20)
    with cluster(place.folder, workers) as master:
        more = ("--master", master, "--max-offsets-per-trigger", str(round(batch / content.events_per_record)))
        command = [sys.executable, *place.arguments("job", "available-now", *more)]
        with reading(command) as process:
            limit = threading.Timer(RUN_S, process.kill)
            limit.start()
            reader = threading.Thread(target=output.extend, args=[process.stdout or ()], daemon=True)
            reader.start()
            while process.poll() is None and not (place.checkpoint / "commits" / "0").exists():
                time.sleep(POLL_S)
            with Meter(GROUPS) as meter:
                code = process.wait()
            limit.cancel()
            reader.join()
    if code:
        msg = f"the job on {workers} workers ended with exit code {code}: {''.join(output)[-600:]}"
        raise BenchError(msg)
    return run_of(finished_batches(place.checkpoint, place.topic), content.events_per_record), meter


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start a master, and workers with one core each; yield the master's address."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(spark_process(log, f"{DEPLOY}.master.Master", *AT_LOOPBACK))
        master = logged(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            size = ("--cores", "1", "--memory", "2g", "--work-dir", str(folder / "work"))
            stack.enter_context(spark_process(log, f"{DEPLOY}.worker.Worker", *AT_LOOPBACK, *size, master, core=number))
            logged(log, "(Successfully registered with master)")
        yield master


@contextmanager
def spark_process(log: Path, *arguments: str, core: int | None = None) -> Iterator[None]:
    """Run a process of the cluster until the block ends. Executors end with their worker.

    Args:
        log: File for the output.
        arguments: Class and options of the process.
        core: The only core for the process and its children, if util-linux is installed; None for all cores.
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


def logged(log: Path, pattern: str) -> str:
    """Wait until a log matches a pattern, and return the match's first group."""
    give_up_at = time.monotonic() + START_S
    while not (found := re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))):
        if time.monotonic() > give_up_at:
            msg = f"{log} does not match {pattern!r} after {START_S:.0f} s"
            raise BenchError(msg)
        time.sleep(0.2)
    return found[1]


if __name__ == "__main__":
    main()

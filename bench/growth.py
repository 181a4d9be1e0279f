"""Measures how the cost of a batch grows with principals and cores, and what a second worker gains.

The workers are those of a standalone Spark cluster. Each has a core of its own, which it shares with driver and broker
if the machine has only two.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark

from bench.big_cluster import QUOTA
from bench.kit import Found, figure, running, stream_command, wait_until
from bench.loads import Cluster
from bench.peers import BATCH_S, batch_cost, filled
from broker.local.local_broker import LocalBroker

PRINCIPALS, CORES, PIDS_EACH = (2_000, 20_000, 100_000), (1, 2, 4), 10
WORKERS_LOAD = Cluster(principals=20_000, pids_each=50)
"""Batches of seconds, so that what only the driver does counts little."""
_SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_AT_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
_VARIABLES = ("SPARK_LOCAL_IP=127.0.0.1", "SPARK_NO_DAEMONIZE=1", f"PYSPARK_PYTHON={sys.executable}")


def measure(share: float) -> Found:
    cores, growth, walls_s = sorted(os.sched_getaffinity(0)), list[dict[str, Any]](), list[float]()
    for principals in PRINCIPALS:
        cluster = Cluster(max(200, round(share * principals)), PIDS_EACH)
        with filled(cluster) as (broker, folder):
            for number in (each for each in CORES if each <= len(cores)):
                cost = cost_on(broker, cluster, folder / f"{number}", cores[:number])
                growth.append({"principals": cluster.principals, "cores": number, **cost})
    cluster = Cluster(max(200, round(share * WORKERS_LOAD.principals)), WORKERS_LOAD.pids_each)
    with filled(cluster) as (broker, folder):
        for number in (1, 2):
            with workers(folder / f"workers-{number}", cores[:number]) as master:
                cost = cost_on(broker, cluster, folder / f"{number}", cores, "--master", master)
                walls_s.append(cost["wall_s"])
    figures = {"scaleout_speedup": figure([walls_s[0] / walls_s[1]])}
    return {"figures": figures, "details": {"growth": growth, "workers_wall_s": walls_s}}


def cost_on(broker: LocalBroker, cluster: Cluster, folder: Path, cores: Sequence[int], *more: str) -> dict[str, float]:
    """Return the cost of a batch on some cores."""
    more = ("--max-principals", str(max(PRINCIPALS)), *more)
    command = stream_command(broker, folder, QUOTA, cluster.records_in(BATCH_S), *more)
    return batch_cost(pinned(cores, *_VARIABLES, *command), folder)


@contextmanager
def workers(folder: Path, cores: Sequence[int]) -> Iterator[str]:
    """Run a Spark cluster that has a worker per core. Yield the master's address."""
    with ExitStack() as stack:

        def started(logged: str, cores: Sequence[int], kind: str, *more: str) -> str:
            spark = (*_VARIABLES, _SPARK_CLASS, f"org.apache.spark.deploy.{kind}", *_AT_LOOPBACK, *more)
            child = stack.enter_context(running(pinned(cores, *spark), folder / f"{kind}-{cores[0]}"))
            wait_until(lambda: re.search(logged, child.said()) is not None, logged)
            return str(re.findall(logged, child.said())[0])

        master = started(r"Starting Spark master at (spark://\S+)", cores, "master.Master")
        size = ("--cores", "1", "--memory", "2g", "--work-dir", str(folder / "work"))
        for core in cores:
            started("Successfully registered with master", [core], "worker.Worker", *size, master)
        yield master


def pinned(cores: Sequence[int], *command: str) -> tuple[str, ...]:
    """Return a command whose processes use only some cores."""
    return ("taskset", "--cpu-list", ",".join(map(str, cores)), "/usr/bin/env", *command)

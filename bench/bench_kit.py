"""What the benchmarks share: a broker with a topic of events, runs of a streaming query, and how they are measured."""

import os
import platform
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from broker.jars.jar_sets import jars_folder, spark_jars
from broker.jars.java import find_java
from broker.local.local_broker import LocalBroker
from broker.process import run_to_end
from quota.config import QuotaConfig
from streaming.pipeline import StreamOptions
from streaming.session import stream_session
from streaming.triggers import AVAILABLE_NOW
from tables.delta import create_missing

TOPIC = "bench-events"
PARTITIONS = 4
ZIPF = 1.1
PIDS_EACH = 20
QUOTA = 100.0
HOUR_MS = 3_600_000
POLL_S = 0.1
REMAINDER_SHARE = 0.1
BENCH = Path(__file__).parent
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """A measurement that says nothing, and what to change."""


@dataclass(frozen=True)
class Load:
    """Events of a benchmark: principals by Zipf's law, each with a few PIDs that come again and again.

    Attributes:
        events: How many.
        principals: How many.
        flood_pids: Besides, so many PIDs of one principal that come once.
        seed: Of the random numbers.
    """

    events: int
    principals: int
    flood_pids: int = 0
    seed: int = 1

    @property
    def topic(self) -> str:
        """A topic that holds these events."""
        return f"{TOPIC}-{self.events}-{self.principals}-{self.flood_pids}"


@dataclass(frozen=True)
class Run:
    """One query over a load, without its first batch, in which everything warms up, and without what is left over.

    Batches don't divide a load evenly: a last one of a few records would only tell what any batch costs.

    Attributes:
        events: Records of the other batches.
        seconds: They took.
        state_bytes: Of the state at the end, on disk, with the versions that are kept to go back to.
        batches: How many.
        cpu_seconds: What Spark's JVM and its Python workers spent on them.
        state_rows: Rows of the state at the end.
    """

    events: int
    seconds: float
    state_bytes: int
    batches: int
    cpu_seconds: float = 0.0
    state_rows: int = 0

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds


@contextmanager
def loaded_broker(folder: Path, *loads: Load) -> Iterator[LocalBroker]:
    """A broker that holds the events of some loads."""
    with LocalBroker(folder / "kafka") as broker:
        for load in loads:
            fill(broker, load)
        yield broker


def fill(broker: LocalBroker, load: Load) -> None:
    admin = AdminClient(broker.admin_config())
    admin.create_topics([NewTopic(load.topic, PARTITIONS, 1)])[load.topic].result()
    settings = {"linger.ms": 50, "queue.buffering.max.messages": 2_000_000, "compression.type": "lz4"}
    producer = Producer(broker.admin_config() | settings)
    random = np.random.default_rng(load.seed)
    weights = 1 / np.arange(1, load.principals + 1) ** ZIPF
    owners = random.choice(load.principals, load.events, p=weights / weights.sum())
    pids = owners * PIDS_EACH + random.integers(0, PIDS_EACH, load.events)
    is_flood = np.zeros(load.events, bool)
    if load.flood_pids:
        is_flood[random.choice(load.events, load.flood_pids, replace=False)] = True
        pids[is_flood] = 1_000_000_000 + np.arange(load.flood_pids)
    begin_ms = time.time_ns() // 1_000_000 - HOUR_MS
    times = begin_ms + np.arange(load.events) * 600_000 // load.events
    for number, (owner, pid, at_ms, flood) in enumerate(
        zip(owners.tolist(), pids.tolist(), times.tolist(), is_flood.tolist(), strict=True)
    ):
        name = "User:flood" if flood else f"User:app-{owner}"
        value = f'{{"timestamp_ms":{at_ms},"principal":"{name}","producer_id":{pid},"client_id":"c{owner % 7}"}}'
        producer.produce(load.topic, value, name)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(300):
        msg = f"not all {load.events:,} events reached the broker within 300 s: is the disk full?"
        raise BenchError(msg)


def options(broker: LocalBroker, load: Load, root: Path, batch: int, **changes: object) -> StreamOptions:
    given: dict[str, object] = {
        "topic": load.topic,
        "kafka_options": {"kafka.bootstrap.servers": broker.admin_servers},
        "tables": str(root / "tables"),
        "checkpoint": str(root / "checkpoint"),
        "trigger": AVAILABLE_NOW,
        "max_offsets_per_trigger": batch,
        "config": QuotaConfig(),
    }
    create_missing(str(root / "tables"))
    return StreamOptions(**(given | changes))


def session() -> SparkSession:
    """Return the job's own session; its Python workers can import the benchmarks, too."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(BENCH), os.environ.get("PYTHONPATH"))))
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.showConsoleProgress=false pyspark-shell"
    spark = stream_session(spark_jars(jars_folder()))
    # A warning per new key and batch would be part of what is measured of `transformWithStateInPandas`.
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measure(query: StreamingQuery, checkpoint: Path) -> Run:
    """Wait until a query has read all, and say how fast its batches were.

    Raises:
        BenchError: If there was nothing after the first batch.
    """
    while query.isActive and not any(each.numInputRows for each in query.recentProgress):
        query.awaitTermination(POLL_S)
    cpu_before = spark_cpu_seconds()
    query.awaitTermination()
    cpu_seconds = spark_cpu_seconds() - cpu_before
    progress = [each for each in query.recentProgress if each.numInputRows][1:]
    largest = max((each.numInputRows for each in progress), default=0)
    progress = [each for each in progress if each.numInputRows >= largest * REMAINDER_SHARE]
    if not progress:
        msg = "the first batch, in which everything warms up, was the only one: give more events or smaller batches"
        raise BenchError(msg)
    return Run(
        events=sum(each.numInputRows for each in progress),
        seconds=sum(each.durationMs["triggerExecution"] for each in progress) / 1000,
        state_bytes=folder_bytes(checkpoint / "state"),
        batches=len(progress),
        cpu_seconds=round(cpu_seconds, 2),
        state_rows=sum(each.numRowsTotal for each in progress[-1].stateOperators),
    )


def spark_cpu_seconds() -> float:
    """Return the CPU time of the JVM that this process has started for Spark, and of all below it."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        # User and system time of its own, and of the children that have ended.
        spent[int(entry.name)] = sum(map(int, fields[11:15])) / CLOCK_TICKS
    found = {pid for pid, parent in parents.items() if parent == os.getpid() and "SparkSubmit" in _command(pid)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(spent[pid] for pid in found)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.exists() else 0


def interleaved(variants: dict[str, Callable[[Path], Run]], rounds: int, folder: Path) -> dict[str, list[Run]]:
    """Run all variants in turn, several times over, so that a noisy machine meets them alike.

    There is a round before those that count: the JVM they share takes several runs until it is as fast as it will be,
    and whoever came first would pay for it.
    """
    runs: dict[str, list[Run]] = {name: [] for name in variants}
    for number in range(1 + rounds):
        for name, run in variants.items():
            place = folder / f"{name}-{number}"
            found = run(place)
            shutil.rmtree(place, ignore_errors=True)
            if number:
                runs[name].append(found)
            note = f"state {found.state_bytes / 1024:,.0f} KiB" if number else "warming up"
            print(f"  {name:28} {found.rate:>10,.0f} events/s  {note}", flush=True)
    return runs


def ratios(runs: dict[str, list[Run]], name: str, base: str) -> dict[str, float]:
    """Return how many times as fast one variant was as another in the same round: median, least and most."""
    return spread(one.rate / other.rate for one, other in zip(runs[name], runs[base], strict=True))


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return median, least and most of some figures, to four digits."""
    found = sorted(values)
    return {
        name: float(f"{value:.4g}")
        for name, value in (("median", statistics.median(found)), ("min", found[0]), ("max", found[-1]))
    }


def summary(runs: dict[str, list[Run]], bases: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what an interleaved run has shown: each variant's figures, and its ratios to some of them."""
    variants = {
        name: {
            "events_per_second": spread(each.rate for each in found),
            "cpu_us_per_event": spread(each.cpu_seconds / each.events * 1e6 for each in found),
            "state_bytes": spread(each.state_bytes for each in found),
            "state_rows": found[-1].state_rows,
            "batches": found[-1].batches,
            "rounds": len(found),
        }
        for name, found in runs.items()
    }
    compared = {
        f"{name}/{base}": ratios(runs, name, base)
        for base in bases
        if base in runs
        for name in runs
        if name != base and not name.startswith("source")
    }
    return {"variants": variants, "ratios": compared}


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    import deltalake
    import pyspark

    _, java = run_to_end([find_java(), "-version"], 60)
    return {
        "cpu": next((line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), "unknown"),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "deltalake": deltalake.__version__,
        "kafka": kafka_version(),
        "java": java.splitlines()[0] if java else "unknown",
    }


def _cpu_lines() -> list[str]:
    return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()


def kafka_version() -> str:
    """Return the version of the embedded broker, as `jvm/ivy.xml` pins it."""
    found = re.search(r'name="kafka_2.13" rev="([^"]+)"', resources.files("jvm").joinpath("ivy.xml").read_text())
    return found[1] if found else "unknown"

"""What the benchmarks share: a broker with a topic of events, runs of a streaming query, and how they are measured."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from broker.java import find_java
from broker.local import LocalBroker
from broker.process import run_to_end
from quota.config import QuotaConfig
from streaming.pipeline import AVAILABLE_NOW, StreamOptions
from streaming.tables import create_missing

TOPIC = "bench-events"
PARTITIONS = 4
ZIPF = 1.1
PIDS_EACH = 20
QUOTA = 100.0
HOUR_MS = 3_600_000


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
    """One query over a load, without its first batch, in which everything warms up.

    Attributes:
        events: Records of the other batches.
        seconds: They took.
        state_bytes: Of the state at the end, on disk.
        batches: How many.
    """

    events: int
    seconds: float
    state_bytes: int
    batches: int

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
        raise TimeoutError


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


def measure(query: StreamingQuery, checkpoint: Path) -> Run:
    """Wait until a query has read all, and say how fast its batches were."""
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each.numInputRows][1:]
    seconds = sum(each.durationMs["triggerExecution"] for each in progress) / 1000
    return Run(sum(each.numInputRows for each in progress), seconds, folder_bytes(checkpoint / "state"), len(progress))


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.exists() else 0


def interleaved(variants: dict[str, Callable[[Path], Run]], repeats: int, folder: Path) -> dict[str, list[Run]]:
    """Run all variants in turn, several times over, so that a noisy machine meets them alike."""
    runs: dict[str, list[Run]] = {name: [] for name in variants}
    for repeat in range(repeats):
        for name, run in variants.items():
            found = run(folder / f"{name}-{repeat}")
            runs[name].append(found)
            print(f"  {name:28} {found.rate:>10,.0f} events/s  state {found.state_bytes / 1024:,.0f} KiB", flush=True)
    return runs


def ratios(runs: dict[str, list[Run]], name: str, base: str) -> dict[str, float]:
    """Return how many times as fast one variant was as another in the same round: median, least and most."""
    found = [one.rate / other.rate for one, other in zip(runs[name], runs[base], strict=True)]
    return {"median": round(statistics.median(found), 3), "min": round(min(found), 3), "max": round(max(found), 3)}


def machine(spark: SparkSession) -> dict[str, object]:
    """Return what the figures were measured on."""
    import deltalake
    import pyspark

    _, java = run_to_end([find_java(), "-version"], 60)
    return {
        "cpu": next((line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), "unknown"),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "spark": spark.version,
        "pyspark": pyspark.__version__,
        "deltalake": deltalake.__version__,
        "java": java.splitlines()[0] if java else "unknown",
    }


def _cpu_lines() -> list[str]:
    return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()


def write_json(file: Path, content: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

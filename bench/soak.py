"""Measures whether memory, open files, state, small files and batch time grow in two hours of steady load.

    .venv/bin/python bench/soak.py                # two hours at 5,000 events/s and a batch per second
    .venv/bin/python bench/soak.py --minutes 3    # a quick check that the script works

A broker and `pid-quota stream` run on this machine, and maintenance compacts and vacuums the tables. Slopes are linear
fits per day. They leave out the first third, in which caches warm up and the window of remembered PIDs fills.
`in_30_days` extrapolates from the mean. The last line is JSON.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaException, Producer
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from bench.kit import folder_bytes
from bench.loads import FLOOD, round_records
from bench.noise import grouped, process_stats
from bench.processes import ROUND_S, Place, behind, finished_batches, running_stream
from broker.kafka.topic_setup import TopicSetup, plan_topics
from broker.local.local_broker import LocalBroker
from jobs.stream.stream_progress import StreamProgress
from jvm.process import run_to_end
from streaming.batch.batch_ends import tracked_principals_before
from streaming.checkpoint.spark_files import newest_batch
from tables.store.log_upkeep import tidy_log
from wire.topics import EVENT_PARTITIONS, PRODUCE_EVENTS

PRINCIPALS = 300
PIDS_EACH = 20
NEW_PID_SHARE = 0.002
MAINTAINED = ("producer_id_metrics", "throttle_decisions", "quarantined_events")
KEPT_VERSIONS = "interval 10 minutes"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ATTEMPTS = 20
JCMD_S = 60.0
SAMPLES_PER_HEAP = 6
"""Only one in this many samples reads the heap, because reading it stops the driver for a full collection."""
GROUPS = {"driver": "jobs.stream", "jvm": "SparkSubmit", "workers": "pyspark.daemon"}
MIB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--rate", type=int, default=5000, help="events per second")
    parser.add_argument("--trigger", default="1 second", help="trigger of `pid-quota stream`")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--maintain-every", type=float, default=60.0, help="seconds; 0 for never")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pid-quota-soak-") as folder, LocalBroker(Path(folder, "kafka")) as broker:
        report(soak(Path(folder), broker, options))


def soak(folder: Path, broker: LocalBroker, options: argparse.Namespace) -> list[dict[str, float]]:
    """Run the stream under load, and return a sample per interval."""
    place, tables = Place(broker, PRODUCE_EVENTS, folder), folder / "tables"
    TopicSetup(broker.admin_config()).create(plan_topics(EVENT_PARTITIONS))
    progress = StreamProgress(place.checkpoint, broker.admin_config(), PRODUCE_EVENTS)
    samples: list[dict[str, float]] = []
    stream = running_stream(place.arguments("job", options.trigger, "--window-seconds", "360"), place.log)
    with (
        stream as require_alive,
        running(load, broker, options.rate),
        running(maintain, tables, options.maintain_every),
    ):
        begin = time.monotonic()
        while (elapsed_s := time.monotonic() - begin) < options.minutes * 60:
            require_alive()
            look = len(samples) % SAMPLES_PER_HEAP == 0
            sample = {
                "seconds": elapsed_s,
                **measure(tables, place.checkpoint, look_into_heap=look),
                "behind": unread(progress),
            }
            samples.append(sample)
            print(" ".join(f"{name}={value:.0f}" for name, value in sample.items()), file=sys.stderr, flush=True)
            time.sleep(options.every)
    return samples


def load(broker: LocalBroker, rate: int, stop: threading.Event) -> None:
    """Write events at a steady rate: most with long-lived PIDs, and those of one principal with a new PID each."""
    producer = Producer({**broker.admin_config(), "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    random, begin, written, fresh = np.random.default_rng(1), time.monotonic(), 0, 10_000_000
    while not stop.is_set():
        due = int((time.monotonic() - begin) * rate) - written
        owners, pids = random.integers(0, PRINCIPALS, due), random.integers(0, PIDS_EACH, due)
        is_new = random.random(due) < NEW_PID_SHARE
        pids = np.where(is_new, fresh + np.arange(due), owners * PIDS_EACH + pids)
        owners = np.where(is_new, FLOOD, owners)
        times = np.full(due, time.time_ns() // 1_000_000)
        for name, value, _ in round_records(owners, pids, times):
            producer.produce(PRODUCE_EVENTS, value, name)
        written, fresh = written + due, fresh + due
        producer.poll(0)
        time.sleep(ROUND_S)
    producer.flush(30)


def maintain(tables: Path, every_s: float, stop: threading.Event) -> None:
    """Compact the tables and delete unused files, as scheduled maintenance does."""
    while every_s and not stop.wait(every_s):
        for name in MAINTAINED:
            try:
                table = DeltaTable(str(tables / name))
                if table.metadata().configuration.get("delta.logRetentionDuration") != KEPT_VERSIONS:
                    table.alter.set_table_properties({"delta.logRetentionDuration": KEPT_VERSIONS})
                table.optimize.compact()
                table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
                tidy_log(table, tables / name, datetime.now(timezone.utc))
            except DeltaError as error:
                print(f"maintenance of {name}: {str(error).splitlines()[0]}", file=sys.stderr)


@contextmanager
def running(function: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Run a function in a thread until the block ends; its last argument is an event that stops it."""
    stop = threading.Event()
    thread = threading.Thread(target=function, args=(*arguments, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measure(tables: Path, checkpoint: Path, *, look_into_heap: bool) -> dict[str, float]:
    """Return one sample of the processes, the state and the files."""
    found = processes()
    newest = next(iter(finished_batches(checkpoint, PRODUCE_EVENTS)[-1:]), None)
    files = [file for name in MAINTAINED for file in (tables / name).rglob("*") if file.is_file()]
    return {
        **{f"{name}_rss_mib": sum(map(rss_bytes, pids)) / MIB for name, pids in found.items()},
        "jvm_live_heap_mib": live_heap_bytes(found["jvm"]) / MIB if look_into_heap else -1.0,
        "workers": len(found["workers"]),
        "open_files": sum(open_files(pid) for pids in found.values() for pid in pids),
        "state_rows": len(tracked_principals_before(str(checkpoint), (newest_batch(str(checkpoint)) or 0))),
        "checkpoint_kib": folder_bytes(checkpoint) / 1024,
        "checkpoint_files": sum(1 for file in checkpoint.rglob("*") if file.is_file()),
        "data_files": sum("_delta_log" not in file.parts for file in files),
        "log_files": sum("_delta_log" in file.parts for file in files),
        "batch_ms": (newest.end_s - newest.begin_s) * 1000 if newest else 0.0,
    }


def processes() -> dict[str, list[int]]:
    """Return the stream's processes: the driver's, its JVM, and the Python workers."""
    stats = process_stats()
    groups = grouped(os.getpid(), stats, GROUPS)
    found = {name: [pid for pid, group in groups.items() if group == name] for name in GROUPS}
    # A JVM that is starting a program appears twice for a moment.
    found["jvm"] = [pid for pid in found["jvm"] if stats[pid][0] not in found["jvm"]]
    return found


def rss_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def live_heap_bytes(jvm: list[int]) -> float:
    """Return the driver's heap size after a full collection. Unlike the RSS, it grows only if there is a leak."""
    jcmd = shutil.which("jcmd")
    if not jvm or jcmd is None:
        return 0.0
    run_to_end([jcmd, str(jvm[0]), "GC.run"], JCMD_S)
    _, output = run_to_end([jcmd, str(jvm[0]), "GC.heap_info"], JCMD_S)
    return sum(map(int, re.findall(r"(?:heap|generation|Gen) +total \d+K, used (\d+)K", output))) * 1024.0


def unread(progress: StreamProgress) -> float:
    """Return how many records the stream has not read yet. This waits until a new topic has leaders."""
    for _ in range(ATTEMPTS):
        with suppress(KafkaException):
            return behind(progress)
        time.sleep(0.5)
    return behind(progress)


def report(samples: list[dict[str, float]]) -> None:
    """Print each figure's mean, maximum, slope and value in 30 days, without the first third."""
    settled = samples[len(samples) // 3 :]
    days = np.array([sample["seconds"] for sample in settled]) / 86_400
    found = {}
    for name in list(samples[0])[1:]:
        values = np.array([sample[name] for sample in settled])
        looked = values >= 0
        slope = float(np.polyfit(days[looked], values[looked], 1)[0]) if looked.sum() > 1 else 0.0
        values = values[looked] if looked.any() else np.zeros(1)
        found[name] = {"mean": round(float(values.mean()), 1), "max": round(float(np.max(values)), 1)}
        found[name] |= {"per_day": round(slope, 1), "in_30_days": round(float(values.mean()) + 30 * slope, 1)}
        print(" ".join([f"{name:20}", *(f"{key} {value:>12}" for key, value in found[name].items())]))
    print(json.dumps({"minutes": round(samples[-1]["seconds"] / 60, 1), "samples": len(samples), **found}))


if __name__ == "__main__":
    main()

"""Does the stream stay as it is? Memory, open files, state, small files and batch time over two hours of steady load.

    .venv/bin/python bench/soak.py                # two hours at 5,000 events/s and a batch a second
    .venv/bin/python bench/soak.py --minutes 3    # only shows that it runs

A real broker and the real `pid-quota stream` run on this machine; tables are compacted and vacuumed beside it, as an
operator would. Slopes are linear fits per day, from after the first third on: until then memories warm up and the
window of remembered PIDs fills. `in_30_days` extends them from the mean. The last line is JSON.
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
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaException, Producer
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from jobs.demo.processes import Child
from jobs.stream.stream_progress import StreamProgress
from jvm.process import run_to_end
from streaming.checkpoint.tracked_principals import tracked_principals_before
from tables.log_upkeep import tidy_log
from tables.quotas.quota_table import QuotaEntry, set_quota
from wire.topics import PRODUCE_EVENTS

QUOTA = 100.0
PRINCIPALS = 300
PIDS_EACH = 20
NEW_PID_SHARE = 0.002
MAINTAINED = ("producer_id_metrics", "throttle_decisions", "quarantined_events")
KEPT_VERSIONS = "interval 10 minutes"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
NEVER = 10**9
ATTEMPTS = 20
JCMD_S = 60.0
SAMPLES_PER_HEAP = 6
"""A look into the heap stops the driver for a full collection: not for every sample."""
MIB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--rate", type=int, default=5000, help="events per second")
    parser.add_argument("--trigger", default="1 second", help="as of `pid-quota stream`")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--maintain-every", type=float, default=60.0, help="seconds; 0 leaves all small files alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pid-quota-soak-") as folder, LocalBroker(Path(folder, "kafka")) as broker:
        report(soak(Path(folder), broker, options))


def soak(folder: Path, broker: LocalBroker, options: argparse.Namespace) -> list[dict[str, float]]:
    """Run the stream under load and return a sample per interval."""
    tables, checkpoint = folder / "tables", folder / "checkpoint"
    set_quota(str(tables), QuotaEntry(None, QUOTA, datetime.now(timezone.utc), "soak"))
    ensure_topics(broker.admin_config())
    arguments = ["-m", "jobs.stream", "--bootstrap-servers", broker.admin_servers, "--tables", str(tables)]
    arguments += ["--checkpoint", str(checkpoint), "--learn-seconds", "0", "--window-seconds", "360"]
    arguments += ["--trigger", options.trigger]
    progress = StreamProgress(checkpoint, broker.admin_config(), PRODUCE_EVENTS)
    samples: list[dict[str, float]] = []
    stream = Child("stream", arguments, folder / "stream.log")
    with stream, running(load, broker, options.rate), running(maintain, tables, options.maintain_every):
        begin = time.monotonic()
        while (elapsed_s := time.monotonic() - begin) < options.minutes * 60:
            stream.require_alive()
            look = len(samples) % SAMPLES_PER_HEAP == 0
            sample = {
                "seconds": elapsed_s,
                **measure(tables, checkpoint, look_into_heap=look),
                "behind": behind(progress),
            }
            samples.append(sample)
            print(" ".join(f"{name}={value:.0f}" for name, value in sample.items()), file=sys.stderr, flush=True)
            time.sleep(options.every)
    return samples


def load(broker: LocalBroker, rate: int, stop: threading.Event) -> None:
    """Write events at a steady rate: long-lived PIDs, a few new ones, and a principal that makes one per event."""
    producer = Producer({**broker.admin_config(), "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    random, begin, written, fresh = np.random.default_rng(1), time.monotonic(), 0, 10_000_000
    while not stop.is_set():
        due = int((time.monotonic() - begin) * rate) - written
        owners, pids = random.integers(0, PRINCIPALS, due), random.integers(0, PIDS_EACH, due)
        is_new = random.random(due) < NEW_PID_SHARE
        now_ms = time.time_ns() // 1_000_000
        for owner, number, new in zip(owners.tolist(), pids.tolist(), is_new.tolist(), strict=True):
            name = "User:loop" if new else f"User:app-{owner}"
            fresh += new
            pid = fresh if new else owner * PIDS_EACH + number
            value = f'{{"timestamp_ms":{now_ms},"principal":"{name}","producer_id":{pid},"client_id":"c{owner % 7}"}}'
            producer.produce(PRODUCE_EVENTS, value, name)
        written += due
        producer.poll(0)
        time.sleep(0.05)
    producer.flush(30)


def maintain(tables: Path, every_s: float, stop: threading.Event) -> None:
    """Compact the tables and drop what nobody reads any more, as a scheduled maintenance does."""
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
def running(function: object, *arguments: object) -> Iterator[None]:
    """Run a function in a thread until the block ends; it gets an event that tells it to stop."""
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
    driver, jvm, workers = processes(str(checkpoint))
    files = [file for name in MAINTAINED for file in (tables / name).rglob("*") if file.is_file()]
    return {
        "driver_rss_mib": sum(rss_bytes(pid) for pid in driver) / MIB,
        "jvm_rss_mib": sum(rss_bytes(pid) for pid in jvm) / MIB,
        "jvm_live_heap_mib": live_heap_bytes(jvm) / MIB if look_into_heap else -1.0,
        "workers_rss_mib": sum(rss_bytes(pid) for pid in workers) / MIB,
        "workers": len(workers),
        "open_files": sum(open_files(pid) for pid in driver + jvm + workers),
        "state_rows": len(tracked_principals_before(str(checkpoint), NEVER)),
        "checkpoint_kib": size_bytes(checkpoint) / 1024,
        "checkpoint_files": sum(1 for file in checkpoint.rglob("*") if file.is_file()),
        "data_files": sum("_delta_log" not in file.parts for file in files),
        "log_files": sum("_delta_log" in file.parts for file in files),
        "batch_ms": batch_ms(checkpoint),
    }


def processes(word: str) -> tuple[list[int], list[int], list[int]]:
    """Return the driver, its JVM and the workers, found by the checkpoint in the driver's arguments."""
    parents, commands = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(stat[1])
            commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
    roots = {pid for pid, command in commands.items() if word in command and "jobs.stream" in command}
    below = [pid for pid in parents if pid not in roots and roots & set(ancestors(pid, parents))]
    # A JVM that starts a program is there twice for a moment.
    jvm = [
        pid for pid in below if "SparkSubmit" in commands[pid] and "SparkSubmit" not in commands.get(parents[pid], "")
    ]
    return (
        list(roots),
        jvm,
        [pid for pid in below if "pyspark.daemon" in commands[pid] and "SparkSubmit" not in commands[pid]],
    )


def ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


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
    """Return what is left in the driver's heap after a full collection: unlike its RSS, it grows only by a leak."""
    jcmd = shutil.which("jcmd")
    if not jvm or jcmd is None:
        return 0.0
    run_to_end([jcmd, str(jvm[0]), "GC.run"], JCMD_S)
    _, told = run_to_end([jcmd, str(jvm[0]), "GC.heap_info"], JCMD_S)
    return sum(map(int, re.findall(r"(?:heap|generation|Gen) +total \d+K, used (\d+)K", told))) * 1024.0


def size_bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total


def batch_ms(checkpoint: Path) -> float:
    """Return how long the newest finished batch took, from its offsets to its commit."""
    done = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdecimal()]
    if not done:
        return 0.0
    begin, end = ((checkpoint / folder / str(max(done))).stat().st_mtime for folder in ("offsets", "commits"))
    return (end - begin) * 1000


def behind(progress: StreamProgress) -> float:
    """Return how many records the stream has not read yet."""
    committed = progress.committed() or {}
    for _ in range(ATTEMPTS):
        try:
            return sum(end - committed.get(partition, 0) for partition, end in progress.ends().items())
        except KafkaException:
            # A topic that was just made has no leaders yet.
            time.sleep(0.5)
    return sum(end - committed.get(partition, 0) for partition, end in progress.ends().items())


def report(samples: list[dict[str, float]]) -> None:
    """Print mean, slope and what it comes to in 30 days of each figure after the first third."""
    settled = samples[len(samples) // 3 :]
    days = np.array([sample["seconds"] for sample in settled]) / 86_400
    found = {}
    for name in list(samples[0])[1:]:
        values = np.array([sample[name] for sample in settled])
        looked = values >= 0
        slope = float(np.polyfit(days[looked], values[looked], 1)[0]) if looked.sum() > 1 else 0.0
        values = values[looked] if looked.any() else np.zeros(1)
        found[name] = {"mean": round(float(values.mean()), 1), "max": round(float(values.max()), 1)}
        found[name] |= {"per_day": round(slope, 1), "in_30_days": round(float(values.mean()) + 30 * slope, 1)}
        print(" ".join([f"{name:20}", *(f"{key} {value:>12}" for key, value in found[name].items())]))
    print(json.dumps({"minutes": round(samples[-1]["seconds"] / 60, 1), "samples": len(samples), **found}))


if __name__ == "__main__":
    main()

"""How long from a produce over the quota to its decision in Delta, and at which rate do batches keep up?

    .venv/bin/python bench/latency.py                        # 5,000 events/s, 200 principals, a trigger of 1 s
    .venv/bin/python bench/latency.py --rate 20000 --sink delta-spark

The stream is the job itself, as a process of its own. Events are written to Kafka as the tap would, at a steady rate;
now and then a fresh principal sends more PIDs than its quota, and the clock runs until a reader of the table finds the
decision. A decision's time is cut into its wait for a batch, the batch until Delta's commit, and the reading. The last
line is JSON.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from deltalake import DeltaTable
from loads import round_records, values_of
from pyarrow import dataset

from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from jobs.demo.processes import Child
from jobs.stream.stream_progress import StreamProgress
from tables.quotas.quota_table import QuotaEntry, set_quota
from tables.store.path_tables import create_missing, table_path
from wire.event_record import EVENTS_VERSION
from wire.topics import PRODUCE_EVENTS

QUOTA = 100
OVER = 10
"""PIDs above the quota: one in a thousand principals has a false positive, which takes no token."""
PIDS_EACH = 5
LIMIT_S = 300.0
WARM_UPS = 10
"""Decisions before those that count: the first of a fresh JVM take several times as long as all later ones."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=5000, help="events per second")
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--trigger", default="1 second")
    parser.add_argument("--events-version", type=int, default=EVENTS_VERSION, help="of the records")
    parser.add_argument("--sink", default="deltalake", choices=["deltalake", "delta-spark"])
    parser.add_argument("--state-buckets", type=int, help="those of a new checkpoint by default")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-latency-") as folder,
        LocalBroker(Path(folder, "kafka")) as broker,
    ):
        print(json.dumps(vars(asked) | measured(Path(folder), broker, asked)))


def measured(folder: Path, broker: LocalBroker, asked: argparse.Namespace) -> dict[str, object]:
    """Run the stream under load, and return latencies and how far it was behind at the end."""
    tables, checkpoint = str(folder / "tables"), folder / "checkpoint"
    create_missing(tables)
    set_quota(tables, QuotaEntry(None, float(QUOTA), datetime.now(timezone.utc), "bench"))
    ensure_topics(broker.admin_config())
    arguments = ["-m", "jobs.stream", "--bootstrap-servers", broker.admin_servers, "--tables", tables]
    arguments += ["--checkpoint", str(checkpoint), "--learn-seconds", "0", "--trigger", asked.trigger]
    arguments += ["--sink", asked.sink]
    if asked.state_buckets is not None:
        arguments += ["--state-buckets", str(asked.state_buckets)]
    progress = StreamProgress(checkpoint, broker.admin_config(), PRODUCE_EVENTS)
    stop = threading.Event()
    load = threading.Thread(
        target=steady, args=(broker, asked.rate, asked.principals, asked.events_version, stop), daemon=True
    )
    with Child("stream", arguments, folder / "stream.log") as stream:
        load.start()
        try:
            for number in range(WARM_UPS):
                stream.require_alive()
                provoke(broker, tables, checkpoint, f"User:warm-up-{number}", asked.events_version)
            found = []
            for trial in range(asked.trials):
                stream.require_alive()
                found.append(provoke(broker, tables, checkpoint, f"User:over-{trial}", asked.events_version))
            ends, committed = progress.ends(), progress.committed() or {}
        finally:
            stop.set()
            load.join()
    behind = sum(end - committed.get(partition, 0) for partition, end in ends.items())
    return percentiles([each.total_s for each in found]) | {
        "behind": behind,
        "wait_s": percentiles([each.wait_s for each in found]),
        "batch_s": percentiles([each.batch_s for each in found]),
        "read_s": percentiles([each.read_s for each in found]),
    }


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Return median, 99th percentile (between the trials) and most."""
    cut = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50_s": round(cut[49], 2), "p99_s": round(cut[98], 2), "max_s": round(max(seconds), 2)}


def steady(broker: LocalBroker, rate: int, principals: int, version: int, stop: threading.Event) -> None:
    """Write events of long-lived PIDs at a steady rate."""
    producer = Producer({**broker.admin_config(), "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    random, begin, written = np.random.default_rng(1), time.monotonic(), 0
    while not stop.is_set():
        due = int((time.monotonic() - begin) * rate) - written
        owners, pids = random.integers(0, principals, due), random.integers(0, PIDS_EACH, due)
        now_ms = time.time_ns() // 1_000_000
        for name, value, _ in round_records(owners, owners * PIDS_EACH + pids, np.full(due, now_ms), version):
            producer.produce(PRODUCE_EVENTS, value, name)
        written += due
        producer.poll(0)
        time.sleep(0.02)
    producer.flush(30)


@dataclass(frozen=True)
class Taken:
    """Seconds from a produce to its decision: until its batch began, until the commit, until a reader had found it."""

    wait_s: float
    batch_s: float
    read_s: float

    @property
    def total_s(self) -> float:
        return self.wait_s + self.batch_s + self.read_s


def provoke(broker: LocalBroker, tables: str, checkpoint: Path, principal: str, version: int) -> Taken:
    """Send a principal's quota and some more at a moment of its own, and wait until its decision is found."""
    time.sleep(float(np.random.default_rng().uniform(0, 2)))
    producer = Producer({**broker.admin_config(), "linger.ms": 0})
    first, now_ms = time.time_ns() // 1000, time.time_ns() // 1_000_000
    pids, times = list(range(first, first + QUOTA + OVER)), [now_ms] * (QUOTA + OVER)
    for value, _ in values_of(principal, "c", pids, times, version):
        producer.produce(PRODUCE_EVENTS, value, principal)
    producer.flush(30)
    # By the clock of the file system, as the batch's own times are.
    sent_s = time.time()
    place, asked = table_path(tables, "throttle_decisions"), dataset.field("principal") == principal
    while time.time() - sent_s < LIMIT_S:
        table = DeltaTable(place)
        rows = table.to_pyarrow_dataset().to_table(columns=["principal", "batch_id"], filter=asked)
        if rows.num_rows:
            found_s = time.time()
            begun_s = (checkpoint / "offsets" / str(rows["batch_id"][0])).stat().st_mtime
            written_s = Path(place, "_delta_log", f"{table.version():020d}.json").stat().st_mtime
            return Taken(begun_s - sent_s, written_s - begun_s, found_s - written_s)
        time.sleep(0.02)
    raise TimeoutError(principal)


if __name__ == "__main__":
    main()

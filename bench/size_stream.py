"""How does the stream fare on the events of a large cluster?

    .venv/bin/python bench/size_stream.py        # 100 brokers, 20,000 principals, 2,000,000 PIDs
    .venv/bin/python bench/size_stream.py --principals 20 --pids 2000 --produce-requests 20000 --brokers 3 --batch 50000

Writes the events that the taps of such a cluster would send to a real topic, and runs the real `pid-quota stream` over
them at full speed, in batches. Batches in which most PIDs are new (the first tick) and others are told apart. The last
line is JSON: CPU, state, tables, memory of driver and workers.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import bench_kit as kit
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable
from process_kit import Place, finished_batches, python_path
from size_processes import Sample, SizeError, sample

from broker.local.local_broker import LocalBroker
from broker.tap.tap_output import PRODUCER_SETTINGS
from jvm.process import end, start_watched

TOPIC = "produce-events"
POLL_S = 0.1
HOUR_MS = 3_600_000
STOP_S = 20.0
MIB = 1024 * 1024
SLICE_MS = 100
"""What is made at a time: a round of the taps."""
FLUSH_S = 600
RUN_S = 1200
COUNTED = ("producer_id_metrics", "throttle_decisions")


@dataclass(frozen=True)
class Cluster:
    """A cluster: each of its PIDs produces at the same rate, to as many brokers, at random times."""

    brokers: int
    produce_requests: float
    principals: int
    pids: int
    brokers_per_pid: int
    skew: float
    repeats_s: float

    @property
    def shares(self) -> list[float]:
        """Each principal's share of the PIDs by Zipf's law, the largest first."""
        weights = [rank**-self.skew for rank in range(1, self.principals + 1)]
        total = sum(weights)
        return [weight / total for weight in weights]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--principals", type=int, default=20_000)
    parser.add_argument("--pids", type=int, default=2_000_000)
    parser.add_argument("--skew", type=float, default=0.8)
    parser.add_argument("--brokers-per-pid", type=int, default=3)
    parser.add_argument("--produce-requests", type=float, default=2_000_000)
    parser.add_argument("--repeats-seconds", type=float, default=10, help="for so long a tap leaves out repeats")
    parser.add_argument("--seconds", type=float, default=30, help="of event time")
    parser.add_argument("--batch", type=int, default=2_000_000, help="most records of a batch")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--events-version", type=int, choices=(1, 2), default=1)
    asked = parser.parse_args()
    cluster = Cluster(
        brokers=asked.brokers,
        produce_requests=asked.produce_requests,
        principals=asked.principals,
        pids=asked.pids,
        brokers_per_pid=asked.brokers_per_pid,
        skew=asked.skew,
        repeats_s=asked.repeats_seconds,
    )
    with tempfile.TemporaryDirectory(prefix="pid-quota-size-") as root, LocalBroker(Path(root, "kafka")) as broker:
        topic = fill(broker, cluster, asked)
        topic["bytes_on_disk"] = sum(each.stat().st_size for each in Path(root).rglob(f"{TOPIC}-*/*.log"))
        print(f"  {topic}", flush=True)
        place = Place(broker, TOPIC, Path(root, "stream"))
        place.folder.mkdir()
        found = run(place, asked.batch)
    print(json.dumps(vars(asked) | {"topic": topic} | found))


# The events


def fill(broker: LocalBroker, cluster: Cluster, asked: argparse.Namespace) -> dict[str, Any]:
    """Write the events of all taps, in the order of time, and return how many they were."""
    admin = AdminClient({**broker.admin_config()})
    admin.create_topics([NewTopic(TOPIC, asked.partitions, 1)])[TOPIC].result()
    settings = {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 1_000_000}
    producer = Producer(broker.admin_config() | PRODUCER_SETTINGS | settings)
    begin_ms = time.time_ns() // 1_000_000 - HOUR_MS
    events = records = size = 0
    for at_ms, owners, pids, brokers in rounds(cluster, asked.seconds):
        events += len(owners)
        made = version_1 if asked.events_version == 1 else version_2
        for name, value in made(begin_ms, at_ms, owners, pids, brokers):
            while True:
                try:
                    producer.produce(TOPIC, value, name)
                    break
                except BufferError:
                    producer.poll(0.1)
            records += 1
            size += len(value)
        producer.poll(0)
    if producer.flush(FLUSH_S):
        msg = f"not all records reached the broker within {FLUSH_S} s: is the disk full?"
        raise SizeError(msg)
    return {
        "events": events,
        "records": records,
        "value_bytes": size,
        "seconds": asked.seconds,
        "partitions": asked.partitions,
    }


def rounds(cluster: Cluster, seconds: float) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield times, principals, PIDs and brokers of the events of each round of the taps."""
    random = np.random.default_rng(1)
    # Each principal has a PID at least.
    owner = np.concatenate(
        (
            np.arange(cluster.principals),
            random.choice(cluster.principals, cluster.pids - cluster.principals, p=cluster.shares),
        )
    ).astype(np.int32)
    pairs = np.repeat(np.arange(cluster.pids, dtype=np.int32), cluster.brokers_per_pid)
    first = random.integers(0, cluster.brokers, cluster.pids, dtype=np.int32)
    place = (first[pairs] + np.tile(np.arange(cluster.brokers_per_pid, dtype=np.int32), cluster.pids)) % cluster.brokers
    span_ms = round(cluster.repeats_s * 1000)
    # Each pair produces at random times, and is seen once in an interval.
    seen = -np.expm1(-cluster.produce_requests / len(pairs) * cluster.repeats_s)
    for begin_ms in range(0, round(seconds * 1000), span_ms):
        chosen = np.flatnonzero(random.random(len(pairs), dtype=np.float32) < seen).astype(np.int32)
        times = random.integers(0, span_ms, len(chosen), dtype=np.int32)
        order = np.argsort(times, kind="stable")
        chosen, times = chosen[order], times[order]
        ends = np.searchsorted(times, np.arange(SLICE_MS, span_ms + SLICE_MS, SLICE_MS))
        for start, stop in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            of_round = chosen[start:stop]
            pid = pairs[of_round]
            yield begin_ms + times[start:stop], owner[pid], pid, place[of_round]


def version_1(begin_ms: int, at_ms: Any, owners: Any, pids: Any, brokers: Any) -> Iterator[tuple[str, str]]:
    """Yield key and value of a record per event."""
    for at, owner, pid, broker in zip(at_ms.tolist(), owners.tolist(), pids.tolist(), brokers.tolist(), strict=True):
        name = f"User:app-{owner}"
        yield (
            name,
            f'{{"timestamp_ms":{begin_ms + at},"principal":"{name}","producer_id":{pid},"producer_epoch":0,'
            f'"broker_id":{broker},"topic":"orders-{owner % 50}","partition":{pid % 12},'
            f'"client_id":"app-{owner % 7}"}}',
        )


def version_2(begin_ms: int, at_ms: Any, owners: Any, pids: Any, brokers: Any) -> Iterator[tuple[str, str]]:
    """Yield key and value of a record per principal and broker."""
    key = owners.astype(np.int64) * 100_000 + brokers
    order = np.argsort(key, kind="stable")
    key, at_ms, pids = key[order], at_ms[order], pids[order]
    begins = np.flatnonzero(np.diff(key, prepend=-1))
    times, ids, keys = at_ms.tolist(), pids.tolist(), key[begins].tolist()
    for start, stop, both in zip(begins.tolist(), [*begins[1:].tolist(), len(key)], keys, strict=True):
        owner, broker = divmod(both, 100_000)
        name, first = f"User:app-{owner}", times[start]
        after = ",".join(str(each - first) for each in times[start:stop])
        pid_list = ids[start:stop]
        yield (
            name,
            f'{{"version":2,"timestamp_ms":{begin_ms + first},"principal":"{name}","broker_id":{broker},'
            f'"groups":[{{"topic":"orders-{owner % 50}","client_id":"app-{owner % 7}"}}],"after_ms":[{after}],'
            f'"producer_ids":[{",".join(map(str, pid_list))}],'
            f'"partitions":[{",".join(str(each % 12) for each in pid_list)}]}}',
        )


# The stream


def run(place: Place, batch: int) -> dict[str, Any]:
    """Run the stream to the end of the topic, and return what it took."""
    more = ("--max-offsets-per-trigger", str(batch), "--learn-seconds", "3600")
    command = place.arguments("job", "available-now", *more)
    # The last of two equal options counts: the kit's streams don't learn.
    with python_path():
        process = start_watched([sys.executable, *command], place.log)
    commits: dict[int, float] = {}
    spent: dict[int, float] = {}
    peak, begin = Sample(), time.monotonic()
    try:
        while process.poll() is None:
            if time.monotonic() - begin > RUN_S:
                msg = f"the stream is not through after {RUN_S} s"
                raise SizeError(msg)
            now = sample(process.pid, spent)
            for name in asdict(peak):
                setattr(peak, name, max(getattr(peak, name), getattr(now, name)))
            done = [int(file.name) for file in place.checkpoint.glob("commits/*") if file.name.isdecimal()]
            if done and max(done) not in commits:
                commits[max(done)] = now.cpu_s
            time.sleep(POLL_S)
    finally:
        end(process, STOP_S)
    if process.returncode:
        msg = f"the stream ended with exit code {process.returncode}: {place.log.read_text()[-800:]}"
        raise SizeError(msg)
    return told(place, commits, peak)


def told(place: Place, commits: dict[int, float], peak: Sample) -> dict[str, Any]:
    """Return the figures of a run."""
    batches = finished_batches(place.checkpoint, place.topic)
    rows = []
    for before, this in pairwise(batches):
        if before.number in commits and this.number in commits:
            cpu_s = commits[this.number] - commits[before.number]
            wall_s = this.end_s - this.begin_s
            records = this.end_offset - before.end_offset
            rows.append(
                {"batch": this.number, "records": records, "cpu_s": round(cpu_s, 2), "wall_s": round(wall_s, 2)}
            )
            print(f"  {rows[-1]}", flush=True)
    tables = {name: of_table(place.tables, name) for name in COUNTED}
    return {
        "batches": rows,
        "ledger_bytes": ledger_bytes(place.tables),
        "state_bytes": kit.folder_bytes(place.checkpoint / "state"),
        "checkpoint_bytes": kit.folder_bytes(place.checkpoint),
        "tracked_bytes": kit.folder_bytes(place.checkpoint / "pid-quota-principals"),
        "tables": tables,
        "peak_mib": {name: round(value / MIB) for name, value in asdict(peak).items() if name != "cpu_s"},
    }


def ledger_bytes(tables: str) -> dict[str, int]:
    """Return the bytes of all ledgers and their active PIDs, as the newest metrics row of each principal says."""
    rows = DeltaTable(f"{tables}/producer_id_metrics").to_pyarrow_table(
        columns=["principal", "window_end", "state_bytes", "active_pids"]
    )
    newest = rows.sort_by("window_end").group_by("principal", use_threads=False)
    last = newest.aggregate([("state_bytes", "last"), ("active_pids", "last")])
    return {
        "principals": last.num_rows,
        "bytes": pc.sum(last["state_bytes_last"]).as_py(),
        "active_pids": pc.sum(last["active_pids_last"]).as_py(),
    }


def of_table(tables: str, name: str) -> dict[str, int]:
    """Return rows and bytes of a table's newest version."""
    added = pa.table(DeltaTable(f"{tables}/{name}").get_add_actions(flatten=True)).to_pydict()
    return {
        "rows": int(sum(added["num_records"])),
        "bytes": int(sum(added["size_bytes"])),
        "files": len(added["size_bytes"]),
    }


if __name__ == "__main__":
    main()

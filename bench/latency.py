"""Measures the time from a request over the quota until its decision is in Delta.

    .venv/bin/python bench/latency.py                        # 5,000 events/s, 200 principals, a trigger of 1 s
    .venv/bin/python bench/latency.py --rate 20000 --sink delta-spark

Events reach Kafka at a steady rate, as from a plugin. In each trial, a new principal exceeds its quota, and the time
ends when a reader of the table finds the decision. A time has three parts: the wait for a batch, the batch until
Delta's commit, and the reading. The last line is JSON.
"""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyarrow import dataset

from bench import kit
from bench.loads import values_of
from bench.processes import Place, Traffic, behind, running_stream
from broker.kafka.topic_setup import TopicSetup, plan_topics
from broker.local.local_broker import LocalBroker
from jobs.stream.stream_progress import StreamProgress
from tables.store.path_tables import table_path
from wire.topics import EVENT_PARTITIONS, PRODUCE_EVENTS

PIDS_SENT = int(kit.QUOTA) + 10
"""Ten PIDs above the quota. One principal in a thousand has a false positive, which takes no token."""
PIDS_EACH = 5
LIMIT_S = 300.0
WARM_UPS = 10
"""Number of first decisions, which don't count. In a new JVM, they take several times as long."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=5000, help="events per second")
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--trigger", default="1 second")
    parser.add_argument("--sink", default="deltalake", choices=["deltalake", "delta-spark"])
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-latency-") as folder,
        LocalBroker(Path(folder, "kafka")) as broker,
    ):
        print(json.dumps(vars(asked) | measured(Place(broker, PRODUCE_EVENTS, Path(folder)), asked)))


def measured(place: Place, asked: argparse.Namespace) -> dict[str, object]:
    """Run the stream under load; return latencies, and the number of unread records at the end."""
    config = place.broker.admin_config()
    TopicSetup(config).create(plan_topics(EVENT_PARTITIONS))
    progress = StreamProgress(place.checkpoint, config, PRODUCE_EVENTS)
    with running_stream(place.arguments("job", asked.trigger, "--sink", asked.sink), place.log) as require_alive:
        found = []
        with Traffic(place, asked.principals, PIDS_EACH, asked.rate):
            for number in range(WARM_UPS + asked.trials):
                require_alive()
                found.append(provoke(place, f"User:over-{number}"))
            unread = behind(progress)
    counted = found[WARM_UPS:]
    return kit.percentiles([each.total_s for each in counted]) | {
        "behind": unread,
        "wait_s": kit.percentiles([each.wait_s for each in counted]),
        "batch_s": kit.percentiles([each.batch_s for each in counted]),
        "read_s": kit.percentiles([each.read_s for each in counted]),
    }


@dataclass(frozen=True)
class Taken:
    """Seconds from a request until a reader finds its decision: the wait, the batch and the reading."""

    wait_s: float
    batch_s: float
    read_s: float

    @property
    def total_s(self) -> float:
        return self.wait_s + self.batch_s + self.read_s


def provoke(place: Place, principal: str) -> Taken:
    """Send more PIDs than the quota at a random moment, and wait until a reader finds the decision."""
    time.sleep(float(np.random.default_rng().uniform(0, 2)))
    producer = Producer({**place.broker.admin_config(), "linger.ms": 0})
    first, now_ms = time.time_ns() // 1000, time.time_ns() // 1_000_000
    pids, times = list(range(first, first + PIDS_SENT)), [now_ms] * PIDS_SENT
    for value, _ in values_of(principal, "c", pids, times):
        producer.produce(PRODUCE_EVENTS, value, principal)
    producer.flush(30)
    # Use the wall clock, as for the times of the batch's files.
    sent_s = time.time()
    decisions = table_path(str(place.folder / "tables"), "throttle_decisions")
    while time.time() - sent_s < LIMIT_S:
        table = DeltaTable(decisions)
        wanted = dataset.field("principal") == principal
        rows = table.to_pyarrow_dataset().to_table(columns=["principal", "batch_id"], filter=wanted)
        if rows.num_rows:
            found_s = time.time()
            begun_s = (place.checkpoint / "offsets" / str(rows["batch_id"][0])).stat().st_mtime
            written_s = Path(decisions, "_delta_log", f"{table.version():020d}.json").stat().st_mtime
            return Taken(begun_s - sent_s, written_s - begun_s, found_s - written_s)
        time.sleep(0.02)
    raise TimeoutError(principal)


if __name__ == "__main__":
    main()

"""Measures what a stream costs while little happens: CPU time and memory.

    .venv/bin/python bench/idle.py                      # 200 events/s, a trigger of 1 s
    .venv/bin/python bench/idle.py --trigger asap

Memory is the proportional set size (PSS) of the stream's JVM and Python workers. The last line is JSON.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from bench.noise import Meter, command
from bench.processes import Place, Traffic, finished_batches, running_stream
from broker.kafka.topic_setup import TopicSetup, plan_topics
from broker.local.local_broker import LocalBroker
from wire.topics import EVENT_PARTITIONS, PRODUCE_EVENTS

PIDS_EACH = 5
STREAM, DRIVER = "stream", "jobs.stream"
"""Group of the stream's processes, and a text in the command line of its first process."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200, help="events per second")
    parser.add_argument("--principals", type=int, default=20)
    parser.add_argument("--trigger", default="1 second")
    parser.add_argument("--warm-up", type=float, default=90.0, help="seconds before the measurement")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of the measurement")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-idle-") as folder,
        LocalBroker(Path(folder, "kafka")) as broker,
    ):
        print(json.dumps(vars(asked) | measured(Place(broker, PRODUCE_EVENTS, Path(folder)), asked)))


def measured(place: Place, asked: argparse.Namespace) -> dict[str, float]:
    """Run the stream under a small load; return its CPU time, memory and batches."""
    TopicSetup(place.broker.admin_config()).create(plan_topics(EVENT_PARTITIONS))
    with (
        running_stream(place.arguments("job", asked.trigger), place.log) as require_alive,
        Traffic(place, asked.principals, PIDS_EACH, asked.rate),
    ):
        time.sleep(asked.warm_up)
        require_alive()
        before = newest_batch(place)
        with Meter({STREAM: DRIVER}) as meter:
            time.sleep(asked.seconds)
        require_alive()
        batches = newest_batch(place) - before
        processes = [pid for (pid, _), process in meter.seen.items() if process.group == STREAM]
        return {
            "cpu_cores": round(meter.seconds(STREAM) / asked.seconds, 3),
            "cpu_s_per_batch": round(meter.seconds(STREAM) / max(batches, 1), 3),
            "batches_per_second": round(batches / asked.seconds, 2),
            "rss_mb": round(pss_mb(pid for pid in processes if DRIVER not in command(pid))),
            "driver_rss_mb": round(pss_mb(pid for pid in processes if DRIVER in command(pid))),
            "steal": meter.noise.steal,
            "others": meter.noise.others,
        }


def newest_batch(place: Place) -> int:
    """Return the number of the newest finished batch."""
    return max(batch.number for batch in finished_batches(place.checkpoint, place.topic))


def pss_mb(processes: Iterable[int]) -> float:
    """Return the memory of running processes in MB. Memory that processes share counts once."""
    total = 0
    for pid in processes:
        try:
            content = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        found = re.search(r"^Pss:\s+(\d+) kB", content, re.MULTILINE)
        total += int(found[1]) if found else 0
    return total * 1024 / 1_000_000


if __name__ == "__main__":
    main()

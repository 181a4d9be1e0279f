"""Streams as processes of their own, as an operator runs them: how they are started, fed and watched."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import bench_kit as kit
import numpy as np
from confluent_kafka import Producer
from loads import BenchError, round_records
from rounds import Run

from broker.local.local_broker import LocalBroker
from tables.quotas.quota_table import QuotaEntry, set_quota
from tables.store.path_tables import create_missing
from wire.event_record import EVENTS_VERSION

JOB_ARGUMENTS = {
    "job": (),
    "job-each": ("--state-buckets", "0"),
    "job-delta-spark": ("--sink", "delta-spark"),
}
SLICE_S = 0.1
"""Of one of the tap's rounds, whose events of a principal are one record."""
FLUSH_S = 60


@dataclass(frozen=True)
class Place:
    """Where a stream reads and writes.

    Attributes:
        broker: The broker.
        topic: Topic of events.
        folder: Its tables, checkpoint and log are below.
        version: Of the records.
    """

    broker: LocalBroker
    topic: str
    folder: Path
    version: int = EVENTS_VERSION

    @property
    def tables(self) -> str:
        return str(self.folder / "tables")

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        return self.folder / "stream.log"

    def arguments(self, variant: str, trigger: str, *more: str) -> list[str]:
        """Return what Python is to run for the job or one of its peers; makes the tables, with a default quota."""
        create_missing(self.tables)
        set_quota(self.tables, QuotaEntry(None, kit.QUOTA, datetime.now(timezone.utc), "bench"))
        common = ["--bootstrap-servers", self.broker.admin_servers, "--topic", self.topic, "--tables", self.tables]
        common += ["--checkpoint", str(self.checkpoint), "--trigger", trigger]
        if variant in JOB_ARGUMENTS:
            return ["-m", "jobs.stream", *common, "--learn-seconds", "0", *JOB_ARGUMENTS[variant], *more]
        of_peer = ("--events-version", str(self.version))
        return [str(kit.BENCH / "peer_stream.py"), "--variant", variant, *of_peer, *common, *more]


@dataclass(frozen=True)
class Batch:
    """A finished micro-batch, as its checkpoint tells of it.

    Attributes:
        number: Its number.
        begin_s: When its offsets were written.
        end_s: When it was committed.
        end_offset: Sum of the offsets it has read to.
    """

    number: int
    begin_s: float
    end_s: float
    end_offset: int


def finished_batches(checkpoint: Path, topic: str) -> list[Batch]:
    """Return the batches of which the checkpoint still knows."""
    found = []
    for number in sorted(int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdecimal()):
        try:
            offsets = checkpoint / "offsets" / str(number)
            end_offset = sum(json.loads(offsets.read_text(encoding="utf-8").splitlines()[2])[topic].values())
            ended_s = (checkpoint / "commits" / str(number)).stat().st_mtime
            found.append(Batch(number, offsets.stat().st_mtime, ended_s, end_offset))
        except FileNotFoundError:
            # Spark drops what it does not need any more.
            continue
    return found


def run_of(batches: Sequence[Batch], events_per_record: float) -> Run:
    """Return how fast the batches after the first were."""
    if len(batches) < 2:
        msg = f"{len(batches)} batches say nothing, since everything warms up in the first: give more events"
        raise BenchError(msg)
    events = round((batches[-1].end_offset - batches[0].end_offset) * events_per_record)
    return Run(events, sum(each.end_s - each.begin_s for each in batches[1:]), 0, len(batches) - 1)


class Traffic:
    """Events of long-lived PIDs at a rate that may change, until the context is left.

    Attributes:
        rate: Events per second.
        written: Events so far.
        records: That hold them.
    """

    def __init__(self, place: Place, principals: int, pids_each: int, rate: float = 0) -> None:
        self.rate, self.written, self.records = rate, 0, 0
        self._place, self._principals, self._pids_each = place, principals, pids_each
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        settings = {"linger.ms": 20, "queue.buffering.max.messages": 2_000_000, "compression.type": "lz4"}
        producer = Producer(self._place.broker.admin_config() | settings)
        random, before, due = np.random.default_rng(1), time.monotonic(), 0.0
        while not self._stop.wait(SLICE_S):
            now = time.monotonic()
            due, before = due + (now - before) * self.rate, now
            size, due = int(due), due % 1
            owners = random.integers(0, self._principals, size)
            pids = owners * self._pids_each + random.integers(0, self._pids_each, size)
            now_ms = time.time_ns() // 1_000_000
            for name, value, events in round_records(owners, pids, np.full(size, now_ms), self._place.version):
                try:
                    producer.produce(self._place.topic, value, name)
                except BufferError:
                    # The brokers are this far behind: the rate is not reached, which whoever asked for it sees.
                    producer.poll(1)
                else:
                    self.written += events
                    self.records += 1
            producer.poll(0)
        producer.flush(FLUSH_S)


@contextmanager
def python_path() -> Iterator[None]:
    """Let programs that are started here, Spark's workers among them, import the project as it is in this folder."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(kit.BENCH.parent), str(kit.BENCH), before)))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before

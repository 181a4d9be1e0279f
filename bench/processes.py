"""Arguments, traffic and finished batches of streams that run as child processes, as in production."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from bench import kit
from bench.loads import BenchError, round_records
from bench.rounds import Run
from broker.local.local_broker import LocalBroker
from jobs.stream.stream_progress import StreamProgress
from jvm.process import end, start_watched

ROUND_S = 0.05
"""Length of a plugin's round. A plugin writes a principal's events of a round as one record."""
FLUSH_S = 60
STOP_S = 20.0


@dataclass(frozen=True)
class Place:
    """Where a stream reads and writes: a broker, a topic, and a folder for tables, checkpoint and log."""

    broker: LocalBroker
    topic: str
    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        return self.folder / "stream.log"

    def arguments(self, variant: str, trigger: str, *more: str) -> list[str]:
        """Create tables with a default quota, and return Python's arguments for the job or a peer."""
        tables = kit.tables_with_quota(self.folder)
        common = ["--bootstrap-servers", self.broker.admin_servers, "--topic", self.topic, "--tables", tables]
        common += ["--checkpoint", str(self.checkpoint), "--trigger", trigger, *more]
        if variant == "job":
            return ["-m", "jobs.stream", *common]
        return ["-m", "bench.peer_stream", "--variant", variant, *common]


@contextmanager
def running_stream(arguments: Sequence[str], log: Path) -> Iterator[Callable[[], None]]:
    """Run a stream with Python's arguments during the `with` block. Yield a function that fails if it has ended."""
    process = start_watched([sys.executable, *arguments], log)

    def require_alive() -> None:
        if process.poll() is not None:
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-400:]
            msg = f"the stream ended with exit code {process.poll()}: {said}. Its log: {log}"
            raise BenchError(msg)

    try:
        yield require_alive
    finally:
        end(process, STOP_S)


@dataclass(frozen=True)
class Batch:
    """A finished micro-batch: when its offsets and its commit were written, and the sum of its end offsets."""

    number: int
    begin_s: float
    end_s: float
    end_offset: int


def finished_batches(checkpoint: Path, topic: str) -> list[Batch]:
    """Return the batches that the checkpoint still has."""
    found = []
    for number in sorted(int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdecimal()):
        try:
            offsets = checkpoint / "offsets" / str(number)
            end_offset = sum(json.loads(offsets.read_text(encoding="utf-8").splitlines()[2])[topic].values())
            end_s = (checkpoint / "commits" / str(number)).stat().st_mtime
            found.append(Batch(number, offsets.stat().st_mtime, end_s, end_offset))
        except FileNotFoundError:
            # Spark has deleted the file, which it no longer needs.
            continue
    return found


def run_of(batches: Sequence[Batch], events_per_record: float) -> Run:
    """Return the run of all batches after the first one."""
    if len(batches) < 2:
        msg = f"only {len(batches)} batches ran, and the first one warms up and doesn't count: give more events"
        raise BenchError(msg)
    events = round((batches[-1].end_offset - batches[0].end_offset) * events_per_record)
    return Run(events, sum(each.end_s - each.begin_s for each in batches[1:]), 0, len(batches) - 1)


def behind(progress: StreamProgress) -> int:
    """Return how many records the stream has not committed yet."""
    committed = progress.committed() or {}
    return sum(end - committed.get(partition, 0) for partition, end in progress.ends().items())


class Traffic:
    """Writes events of long-lived PIDs at a rate that may change, until the context ends.

    Attributes:
        rate: Events per second.
        written: Number of events so far.
        records: Number of records so far.
    """

    def __init__(self, place: Place, principals: int, pids_each: int, rate: float) -> None:
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
        while not self._stop.wait(ROUND_S):
            now = time.monotonic()
            due, before = due + (now - before) * self.rate, now
            size, due = int(due), due % 1
            owners = random.integers(0, self._principals, size)
            pids = owners * self._pids_each + random.integers(0, self._pids_each, size)
            times = np.full(size, time.time_ns() // 1_000_000)
            for name, value, events in round_records(owners, pids, times):
                try:
                    producer.produce(self._place.topic, value, name)
                except BufferError:
                    # The broker is too slow for this rate. The caller sees that the rate was not reached.
                    producer.poll(1)
                else:
                    self.written += events
                    self.records += 1
            producer.poll(0)
        producer.flush(FLUSH_S)

"""Shared by all measurements: figures, the product as child processes, and what these take and write."""

import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyarrow import parquet

from broker.local.local_broker import LocalBroker
from jvm.process import end, run_to_end, start_watched

if TYPE_CHECKING:
    import subprocess

PID_QUOTA = (sys.executable, "-m", "jobs")
"""The command `pid-quota` of this tree."""
ORDERS = "orders"
"""Topic of clients."""
Figure = dict[str, float]
Found = dict[str, dict[str, Any]]
"""The result of a part, as JSON: `figures` by headline key, and perhaps `details` for maintainers."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LIMIT_S, _STOP_S, _SAMPLE_S = 180.0, 20.0, 0.5


class BenchError(Exception):
    """Raised when a measurement is meaningless. The message says what to change."""


def figure(values: Sequence[float], percent: int = 50) -> Figure:
    """Return an interpolated percentile of values, and their bounds, to four significant digits."""
    found = {"value": np.percentile(values, percent), "low": min(values), "high": max(values)}
    return {name: float(f"{each:.4g}") for name, each in found.items()}


def completed(*command: str, limit_s: float = _LIMIT_S) -> str:
    """Run a program, and return what it says."""
    code, said = run_to_end(command, limit_s)
    if code:
        msg = f"{' '.join(command)} ended with exit code {code}: {said[-800:]}"
        raise BenchError(msg)
    return said


def wait_until(holds: Callable[[], bool], what: str, limit_s: float = _LIMIT_S, pause_s: float = 0.05) -> None:
    """Wait until a condition holds. After the limit, raise BenchError."""
    give_up_at = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > give_up_at:
            msg = f"not within {limit_s:.0f} s: {what}"
            raise BenchError(msg)
        time.sleep(pause_s)


@dataclass(frozen=True)
class Child:
    """A running `pid-quota run` or `stream`, or a peer, and the folder of all its files."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    def said(self) -> str:
        """Return its log."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def is_alive(self) -> bool:
        """Return true, or raise BenchError if it has ended."""
        if self.process.poll() is not None:
            msg = f"a program ended with exit code {self.process.returncode}: {self.said()[-800:]}"
            raise BenchError(msg)
        return True

    def batches(self) -> dict[int, tuple[float, float]]:
        """Return begin and end of each batch that Spark's checkpoint still has, in seconds since the epoch."""
        found = {}
        for commit in self.folder.glob("checkpoint/commits/*"):
            # Spark may have deleted the file.
            with suppress(FileNotFoundError, ValueError):
                offsets = self.folder / "checkpoint" / "offsets" / commit.name
                found[int(commit.name)] = (offsets.stat().st_mtime, commit.stat().st_mtime)
        return dict(sorted(found.items()))

    def await_batch(self, number: int, limit_s: float = _LIMIT_S) -> None:
        """Wait until a batch is finished."""
        wait_until(lambda: self.is_alive() and max(self.batches(), default=-1) >= number, f"batch {number}", limit_s)


def decided_s(data: Path) -> dict[str, float]:
    """Return when the first decision on each principal was committed, in seconds since the epoch, by `--data`."""
    table, found = data / "tables" / "throttle_decisions", dict[str, float]()
    for log in sorted(table.glob("_delta_log/*.json")):
        for line in log.read_text(encoding="utf-8").splitlines():
            if (added := json.loads(line).get("add")) is not None:
                rows = parquet.ParquetFile(table / unquote(added["path"])).read(["principal"])
                for principal in rows["principal"].to_pylist():
                    found.setdefault(principal, log.stat().st_mtime)
    return found


@contextmanager
def running_broker(**properties: Any) -> Iterator[tuple[LocalBroker, Path]]:
    """Run a broker that holds users and has the topic of clients. Yield it and a folder."""
    with tempfile.TemporaryDirectory() as name, LocalBroker(Path(name, "kafka"), holds=True, **properties) as found:
        create_topic(found, 1)
        found.wait_for_plugin()
        yield found, Path(name)


def create_topic(broker: LocalBroker, partitions: int) -> None:
    """Create the topic of clients."""
    admin = AdminClient({**broker.admin_config()})
    admin.create_topics([NewTopic(ORDERS, partitions, 1)])[ORDERS].result()


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[Child]:
    """Run a program and its children during the `with` block. The command may begin with variables (`NAME=value`)."""
    folder.mkdir(parents=True, exist_ok=True)
    process = start_watched(["/usr/bin/env", *command], folder / "log")
    try:
        yield Child(process, folder)
    finally:
        end(process, _STOP_S)


@contextmanager
def running_product(broker: LocalBroker, folder: Path, quota: int, trigger: str, **more: object) -> Iterator[Child]:
    """Run `pid-quota run` with a default quota, and wait for its first batch. `more` are further options."""
    folder.mkdir(parents=True)
    quotas = folder / "quotas.yaml"
    quotas.write_text(f"- entity_name: null\n  producer_ids_rate: {quota}\n", encoding="utf-8")
    options = {"bootstrap_server": broker.admin_servers, "data": folder, "quotas_file": quotas, "trigger": trigger}
    options |= {"console": 0, "metrics": 0, **more}
    variables = [f"PID_QUOTA_{name.upper()}={value}" for name, value in options.items()]
    with running((*variables, *PID_QUOTA, "run"), folder) as child:
        child.await_batch(0)
        yield child


def stream_command(broker: LocalBroker, folder: Path, quota: int, records: int, *more: str) -> tuple[str, ...]:
    """Create tables, and return the command of a stream whose batches of some records follow each other at once."""
    tables = str(folder / "tables")
    completed(*PID_QUOTA, "tables", "create", "--tables", tables)
    alter = (*PID_QUOTA, "quotas", "--tables", tables, "--alter", "--entity-type", "users", "--entity-default")
    completed(*alter, "--add-config", f"producer_ids_rate={quota}")
    variables = (f"PID_QUOTA_BOOTSTRAP_SERVER={broker.admin_servers}", f"PID_QUOTA_TABLES={tables}")
    stream = (*PID_QUOTA, "stream", "--checkpoint", str(folder / "checkpoint"), "--trigger", "asap")
    return (*variables, *stream, "--max-offsets-per-trigger", str(records), *more)


@contextmanager
def in_background(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run a function in a thread during the `with` block. It ends when its event is set."""
    is_over = threading.Event()
    thread = threading.Thread(target=work, args=(is_over,))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def metered(child: Child) -> Iterator[dict[str, float]]:
    """Measure CPU time and length of the `with` block (`cpu_s`, `wall_s`) of a child and its descendants.

    It samples running processes, because Spark's Python daemon never gets the CPU time of ended workers.
    """
    first, begin, found = tree(child), time.monotonic(), dict[str, float]()
    last = dict(first)

    def sample(is_over: threading.Event) -> None:
        while not is_over.wait(_SAMPLE_S):
            last.update(tree(child))

    with in_background(sample):
        yield found
    last.update(tree(child))
    found["cpu_s"] = (sum(last.values()) - sum(first.values())) / TICKS_PER_S
    found["wall_s"] = time.monotonic() - begin


def tree(child: Child) -> dict[tuple[int, str], int]:
    """Return the CPU time in ticks of a child and its descendants, by process id and start."""
    every, found = dict[int, tuple[int, str, int]](), dict[tuple[int, str], int]()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            every[int(entry.name)] = (int(fields[1]), fields[19], int(fields[11]) + int(fields[12]))
    new = {child.process.pid} & every.keys()
    while new:
        found |= {(pid, every[pid][1]): every[pid][2] for pid in new}
        new = {pid for pid, (parent, *_) in every.items() if parent in new}
    return found


def pss_mb(child: Child) -> float:
    """Return the memory of a child and its descendants in MB. Memory that processes share counts once."""
    total = 0
    for pid, _ in tree(child):
        with suppress(OSError):
            found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
            total += int(found[1]) if found else 0
    return total * 1024 / 1_000_000

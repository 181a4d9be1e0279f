"""The kernel's OOM killer ends the stream's JVM: a memory cgroup is filled by a neighbour of the stream."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import LIMIT_S, wait_until
from tests.kits.fault_kit import Stream, committed, drive, running_driver, topic_of

CGROUPS = Path("/sys/fs/cgroup")
MIB = 1024 * 1024
HOG = """
taken = []
while True:
    taken.append(b"x" * 1048576)
"""


@dataclass(frozen=True)
class MemoryCgroup:
    """A cgroup with a memory limit, of either version of cgroups."""

    folder: Path
    limit: str
    usage: str

    def add(self, pid: int) -> None:
        """Move a process into it; the processes that it starts later follow."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def set_limit(self, limit_bytes: int) -> None:
        (self.folder / self.limit).write_text(str(limit_bytes))

    def usage_bytes(self) -> int:
        return int((self.folder / self.usage).read_text())

    def prefer_as_victim(self, program: str) -> None:
        """Have the kernel kill processes of a program before the others."""
        for pid in (self.folder / "cgroup.procs").read_text().split():
            if program in Path("/proc", pid, "comm").read_text():
                Path("/proc", pid, "oom_score_adj").write_text("1000")

    def is_empty(self) -> bool:
        return not (self.folder / "cgroup.procs").read_text().split()


@contextmanager
def memory_cgroup() -> Iterator[MemoryCgroup]:
    name = f"pid-quota-{os.getpid()}"
    if (CGROUPS / "memory").is_dir():
        cgroup = MemoryCgroup(CGROUPS / "memory" / name, "memory.limit_in_bytes", "memory.usage_in_bytes")
    else:
        cgroup = MemoryCgroup(CGROUPS / name, "memory.max", "memory.current")
    try:
        cgroup.folder.mkdir()
    except OSError as error:
        pytest.skip(f"needs the right to make a memory cgroup: {error}")
    try:
        yield cgroup
    finally:
        wait_until(cgroup.is_empty, "the end of the processes in the cgroup")
        cgroup.folder.rmdir()


@pytest.mark.slow
def test_a_stream_whose_jvm_the_kernel_kills_ends_and_its_next_start_loses_and_doubles_nothing(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    topic = topic_of(broker, 3000)
    stream = Stream(tmp_path / "killed", broker.admin_servers, topic).prepared()

    with memory_cgroup() as cgroup:
        with running_driver(stream, tmp_path / "log", trigger="1 second") as process:
            cgroup.add(process.pid)
            wait_until(lambda: committed(stream) > 0, "a batch", process)
            cgroup.prefer_as_victim("java")
            cgroup.set_limit(cgroup.usage_bytes() + 64 * MIB)
            with subprocess.Popen([sys.executable, "-c", HOG]) as hog:
                cgroup.add(hog.pid)
                try:
                    exit_code = process.wait(LIMIT_S)
                finally:
                    hog.kill()
        assert exit_code not in (0, -signal.SIGKILL), "the driver was killed, and not its JVM"

    assert drive(replace(stream, batch=50_000), tmp_path / "log") == 0
    stream.assert_as_undisturbed(spark)

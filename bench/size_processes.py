"""A stream's processes: the CPU time that they have spent, and the memory that they hold."""

import os
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class SizeError(Exception):
    """A run that says nothing, and why."""


@dataclass
class Sample:
    """Processes of the stream at a moment; sizes in bytes.

    Attributes:
        cpu_s: CPU time of all of them so far.
        driver_python: Resident memory of the driver's Python.
        jvm: Of Spark's JVM, in which driver and executor are one here.
        workers: Of all Python workers.
        largest_worker: Of the largest one.
    """

    cpu_s: float = 0.0
    driver_python: int = 0
    jvm: int = 0
    workers: int = 0
    largest_worker: int = 0


def sample(root: int, spent: dict[int, float]) -> Sample:
    """Return the processes below one, and what they have spent.

    Args:
        root: The process at the top.
        spent: CPU time by process, kept from sample to sample: Spark's daemon does not collect that of workers that
            have ended.
    """
    stats: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        # User and system time.
        stats[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:13])) / TICKS_PER_S
    found = {root}
    while more := {pid for pid, (parent, _) in stats.items() if parent in found} - found:
        found |= more
    spent |= {pid: stats[pid][1] for pid in found if pid in stats}
    now = Sample(cpu_s=sum(spent.values()))
    for pid in found:
        command, rss = command_and_rss(pid)
        if pid == root:
            now.driver_python = rss
        elif "SparkSubmit" in command:
            now.jvm = max(now.jvm, rss)
        elif "pyspark.daemon" in command:
            now.workers += rss
            now.largest_worker = max(now.largest_worker, rss)
    return now


def command_and_rss(pid: int) -> tuple[str, int]:
    """Return a process's command and its resident memory in bytes; nothing once it has ended."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return command, int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * PAGE_BYTES
    except OSError:
        return "", 0

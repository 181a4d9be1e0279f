"""Measures the CPU time of this process and its descendants, other programs, and other machines (steal)."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.5
MAX_STEAL = 0.02
MAX_OTHERS = 0.10
"""Share of all cores. If other programs take more, a measurement is disturbed."""


@dataclass(frozen=True)
class Noise:
    """Shares of the time of all cores.

    Attributes:
        steal: Share that the hypervisor gave to other machines.
        others: Share of programs that this process did not start.
        load: The machine's load average at the end, including the measurement's own load.
    """

    steal: float = 0.0
    others: float = 0.0
    load: float = 0.0

    @property
    def disturbance(self) -> float:
        """The larger of both shares, each relative to its maximum. Above 1, the measurement is disturbed."""
        return max(self.steal / MAX_STEAL, self.others / MAX_OTHERS)


QUIET = Noise()


@dataclass
class Process:
    """A process: its CPU time in ticks when first and last seen, and its group."""

    first: int
    last: int
    group: str


@dataclass
class Meter:
    """Measures the CPU time of this process and its descendants, until the context ends.

    It samples running processes, because Spark's Python daemon ignores SIGCHLD, and so never gets the CPU time of
    ended workers.

    Attributes:
        groups: For each group, a text in the command lines of its processes. Their descendants also belong to the
            group.
        seen: CPU time of each process, by process id and start.
        noise: Noise of the machine.
    """

    groups: Mapping[str, str] = field(default_factory=lambda: {"spark": "SparkSubmit"})
    seen: dict[tuple[int, str], Process] = field(default_factory=dict)
    noise: Noise = QUIET

    def __enter__(self) -> "Meter":
        self._stop, self._before = threading.Event(), machine_ticks()
        self._scan(begin=True)
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._scan()
        busy, steal, total = (now - then for now, then in zip(machine_ticks(), self._before, strict=True))
        ours, total = sum(each.last - each.first for each in self.seen.values()), max(total, 1)
        shares = (round(steal / total, 4), round(max(busy - ours, 0) / total, 4))
        self.noise = Noise(*shares, round(os.getloadavg()[0], 2))

    def seconds(self, group: str | None = None) -> float:
        """Return the CPU time of a group, or of all processes including this one."""
        found = (each for each in self.seen.values() if group in (None, each.group))
        return sum(each.last - each.first for each in found) / TICKS_PER_S

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self._scan()

    def _scan(self, *, begin: bool = False) -> None:
        stats = process_stats()
        groups = grouped(os.getpid(), stats, self.groups)
        for pid, group in groups.items():
            _, born, ticks = stats[pid]
            known = self.seen.setdefault((pid, born), Process(ticks if begin else 0, ticks, group))
            # When first seen, a process that was just forked may have had its parent's command line.
            known.last, known.group = ticks, group


def process_stats() -> dict[int, tuple[int, str, int]]:
    """Return each process's parent, start and CPU time in ticks (without its children's)."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        found[int(entry.name)] = (int(fields[1]), fields[19], int(fields[11]) + int(fields[12]))
    return found


def command(pid: int) -> str:
    """Return a process's command line; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def grouped(
    root: int,
    stats: Mapping[int, tuple[int, str, int]],
    groups: Mapping[str, str],
    command_of: Callable[[int], str] = command,
) -> dict[int, str]:
    """Return the groups of a process and its descendants. A process without a group of its own has its parent's.

    Args:
        root: The process.
        stats: Return value of `process_stats`.
        groups: Groups of `Meter`.
        command_of: Returns the command line of a process.
    """
    found, new = {root: ""}, {root}
    while new:
        new = {pid for pid, (parent, *_) in stats.items() if parent in found} - set(found)
        for pid in new:
            line = command_of(pid)
            own = next((name for name, text in groups.items() if text in line), None)
            found[pid] = found[stats[pid][0]] if own is None else own
    return {pid: group for pid, group in found.items() if pid in stats}


def machine_ticks() -> tuple[int, int, int]:
    """Return the machine's CPU time in ticks since its start: busy, stolen and total."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    )
    busy = user + nice + system + irq + softirq
    return busy, steal, busy + steal + idle + iowait

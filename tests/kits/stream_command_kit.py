"""`pid-quota stream` as a process. Tests see only its terminal and its tables."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.local.local_broker import LocalBroker
from tests.kits import tuned_stream
from tests.kits.process_kit import in_group

LIMIT_S = 300.0


@dataclass
class StreamCommand:
    """A stream's folders and topic."""

    root: Path
    servers: str
    topic: str
    arguments: list[str] = field(default_factory=list)
    tuned: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def on(cls, broker: LocalBroker, topic: str, root: Path) -> "StreamCommand":
        return cls(root, broker.admin_servers, topic)

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def run(self, *more: str) -> tuple[int, list[str]]:
        """Read all there is; returns the exit code and the lines on standard error."""
        with self.running("--trigger", "available-now", *more) as process:
            code = process.wait(LIMIT_S)
        return code, self.said()

    @contextmanager
    def running(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run it for the block, in a process group of its own; its errors are in `said`."""
        command = [sys.executable, *tuned_stream.arguments({"topic": self.topic} | self.tuned)]
        command += ["--bootstrap-server", self.servers]
        command += ["--tables", str(self.tables), "--checkpoint", str(self.checkpoint)]
        (self.root / "stderr").write_bytes(b"")
        with in_group([*command, *self.arguments, *more], self.root / "stderr") as process:
            yield process

    def said(self) -> list[str]:
        return (self.root / "stderr").read_text(errors="replace").splitlines()

    def batches(self) -> int:
        return sum(file.name.isdecimal() for file in (self.checkpoint / "commits").glob("*"))

    def wait_for_batches(self, count: int, process: subprocess.Popen[bytes]) -> None:
        give_up_at = time.monotonic() + LIMIT_S
        while self.batches() < count:
            assert process.poll() is None, self.said()
            assert time.monotonic() < give_up_at, self.said()
            time.sleep(0.1)


def processes_below(pid: int) -> dict[int, str]:
    """All processes that descend from one, with their command lines."""
    parents = {}
    commands = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            number = int(folder.name)
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[number] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    found: dict[int, str] = {}
    newest = {pid}
    while newest:
        newest = {child for child, parent in parents.items() if parent in newest and child not in found}
        found |= {child: commands[child] for child in newest}
    return found

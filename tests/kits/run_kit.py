"""`pid-quota run` as a process. Tests see its log, its ports and its processes."""

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.kits.process_kit import in_group
from tests.kits.stream_command_kit import processes_below

LIMIT_S = 180.0
_BEGUN = re.compile(r"console at http://127\.0\.0\.1:(\d+)/, metrics at http://127\.0\.0\.1:(\d+)/metrics")


@dataclass
class Run:
    """A `run` that has begun, or that has ended already."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, count: int = 1) -> None:
        """Wait until the log has a text."""
        self.until(lambda: self.said().count(text) >= count, text)

    def until(self, condition: Callable[[], bool], what: str, *, is_over: bool = False) -> None:
        give_up_at = time.monotonic() + LIMIT_S
        while not condition():
            assert is_over or self.process.poll() is None, f"{what}: it has ended: {self.said()}"
            assert time.monotonic() < give_up_at, f"{what}: {self.said()}"
            time.sleep(0.1)

    def get(self, path: str, *, of_console: bool = False) -> tuple[int, str]:
        """Return the status and the text of an answer, or 0 and nothing if there is none."""
        found = _BEGUN.search(self.said())
        if not found:
            return 0, ""
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1 if of_console else 2]), timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def wait_until_ready(self) -> None:
        self.until(lambda: self.get("/readyz")[0] == 200, "it is ready")

    def metric(self, name: str) -> float:
        """Return a metric's value; -1 if it is missing."""
        values = [each for each in self.get("/metrics")[1].splitlines() if each.startswith(f"{name} ")]
        return float(values[0].split()[-1]) if values else -1.0

    def wait_for_metric(self, name: str, value: float = 1.0) -> None:
        self.until(lambda: self.metric(name) == value, f"{name} is {value:g}")

    def pid(self, words: str) -> int:
        """Return the process below this one whose command has a text."""
        (found,) = [pid for pid, command in processes_below(self.process.pid).items() if re.search(words, command)]
        return found

    def pids(self) -> set[int]:
        return set(processes_below(self.process.pid))

    def stop(self) -> int:
        """End it as an administrator does, and return the exit code."""
        self.process.terminate()
        return self.process.wait(LIMIT_S)


STREAM, CONSOLE, JVM = r"^\S+ -m jobs stream ", r"^\S+ -m jobs console ", r"org\.apache\.spark\.deploy\.SparkSubmit"
"""Texts in the commands of the parts."""
STREAM_UP = 'pid_quota_part_up{part="stream"}'
"""Metric: 1 while the stream runs and answers."""


@dataclass
class RunCommand:
    """A command line of `run`, without the data folder."""

    servers: str
    options: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def running(self, data: Path, *more: str) -> Iterator[Run]:
        """Run it for the block. What is left then is killed. `more` replaces defaults."""
        log = data.with_name(f"{data.name}-{time.monotonic_ns()}.log")
        log.write_bytes(b"")
        usual = {"--bootstrap-server": self.servers, "--data": str(data), "--console": "0", "--metrics": "0"}
        given = [*self.options, *more]
        words = [word for pair in usual.items() if pair[0] not in given for word in pair]
        with in_group(
            [sys.executable, "-m", "jobs", "run", *words, *given], log, {**os.environ, **self.environment}
        ) as process:
            yield Run(process, log)
            if process.poll() is None:
                process.terminate()
                process.wait(LIMIT_S)


def is_there(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_it_catches_signals(pid: int) -> None:
    """Wait until a process has its handlers: the first instructions of Python itself can't have them."""
    give_up_at = time.monotonic() + LIMIT_S
    caught = 0
    while not caught >> (signal.SIGTERM - 1) & 1:
        assert time.monotonic() < give_up_at
        caught = int(Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0], 16)

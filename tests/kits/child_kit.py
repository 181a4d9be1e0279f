"""Children of `pid-quota run` without processes: a test says what they print, how they are, and when they end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from jobs.run import parts, tasks
from jobs.run.children import Command
from jobs.run.probes import Health
from jobs.services.steady_clock import SteadyClock

_PIDS = count(1_000_001)


@dataclass
class FakeChild:
    """A child that runs until the test ends it.

    Attributes:
        asked: what it was asked to do: `terminate` or `kill`, in order.
        obeys: whether it ends when it is asked to.
    """

    command: Command
    take: Callable[[str], None]
    asked: list[str] = field(default_factory=list)
    code: int | None = None
    last_error: str = ""
    obeys: bool = False
    pid: int = field(default_factory=lambda: next(_PIDS))

    @property
    def name(self) -> str:
        """What the child does, such as `stream`, or `maintain`."""
        words = [each for each in self.command.arguments if not each.startswith("-m")]
        if words[0] != "jobs":
            return words[0]
        return "maintain" if "maintain" in words else words[1]

    def end(self, code: int = 0, *lines: str, error: str = "") -> None:
        """Print lines, and end."""
        for each in lines:
            self.take(each)
        self.code, self.last_error = code, error

    def exit_code(self) -> int | None:
        """Return the exit code once the test has ended it."""
        return self.code

    def terminate(self) -> None:
        """Note that it is asked to end."""
        self.asked.append("terminate")
        if self.obeys:
            self.end(-15)

    def kill(self) -> None:
        """Note that it is killed."""
        self.asked.append("kill")

    def error(self) -> str:
        """Return the error that ended the output."""
        return self.last_error


@dataclass
class FakeProber:
    """The answers of a part, which the test sets."""

    ask: Callable[[], tuple[str, str]]
    clock: SteadyClock
    health: Health = field(default_factory=Health)
    is_closed: bool = False

    def close(self) -> None:
        """Note that nobody asks any more."""
        self.is_closed = True


class Children:
    """All children that were started.

    Attributes:
        failure: why no child can be started.
        fails: the exit code and the error of children that end at once, by name.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[FakeChild] = []
        self.probers: list[FakeProber] = []
        self.failure: OSError | None = None
        self.fails: dict[str, tuple[int, str]] = {}
        monkeypatch.setattr(tasks, "ChildProcess", self._start)
        monkeypatch.setattr(parts, "ChildProcess", self._start)
        monkeypatch.setattr(parts, "Prober", self._ask)

    def __getitem__(self, name: str) -> FakeChild:
        """Return the newest child of a name."""
        return [each for each in self.started if each.name == name][-1]

    def count(self, name: str) -> int:
        """Return the number of starts."""
        return sum(each.name == name for each in self.started)

    def running(self) -> set[str]:
        """Return the names of those that run."""
        return {each.name for each in self.started if each.code is None}

    def _start(self, command: Command, take: Callable[[str], None]) -> FakeChild:
        if self.failure is not None:
            raise self.failure
        child = FakeChild(command, take)
        self.started.append(child)
        if child.name in self.fails:
            code, error = self.fails[child.name]
            child.end(code, error=error)
        return child

    def _ask(self, ask: Callable[[], tuple[str, str]], clock: SteadyClock) -> FakeProber:
        self.probers.append(FakeProber(ask, clock))
        return self.probers[-1]


class HandClock(SteadyClock):
    """A clock that goes on when the test says so."""

    def __init__(self) -> None:
        self._real_s = 100.0
        super().__init__(lambda: self._real_s)

    def stand_still(self, seconds: float) -> None:
        """Let real time pass without a tick."""
        self._real_s += seconds

    def pass_s(self, seconds: float) -> float:
        """Let time pass, and return it."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self._real_s += min(1.0, end_s - self.now_s)
            self.tick()
        return self.now_s

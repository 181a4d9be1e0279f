"""Short-lived child processes: what `pid-quota run` does once, at intervals, or when a file has changed."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from jobs.run.children import ChildProcess, Command
from jobs.services.steady_clock import SteadyClock

_FIRST_RETRY_S = 10.0
_MAX_RETRY_S = 600.0
_MAX_LINES = 200


@dataclass(frozen=True)
class Done:
    """The end of a task. `error` is the line with which it failed, or empty."""

    exit_code: int
    lines: tuple[str, ...]
    error: str


class Task:
    """A task of `pid-quota run`.

    Attributes:
        done_at_s: Unix time at which it last ended well; 0 for never.
        failures: number of times that it failed.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[], Command],
        clock: SteadyClock,
        *,
        limit_s: float,
        every_s: float | None = None,
        first_s: float = 0.0,
    ) -> None:
        """Create a task that runs first after `first_s`, then every `every_s`, or after `run_again`.

        It is killed after `limit_s`.
        """
        self.name, self._command, self._clock = name, command, clock
        self._limit_s, self._every_s = limit_s, every_s
        self._child: ChildProcess | None = None
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)
        self._began_s = 0.0
        self._due_s: float | None = clock.now_s + first_s
        self._fails_in_a_row = 0
        self._is_asked_to_end = False
        self.done_at_s = 0.0
        self.failures = 0

    @property
    def is_done(self) -> bool:
        """Whether the task has ever ended well."""
        return self.done_at_s > 0

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._child.pid if self._child else None

    def run_again(self, after_s: float = 0.0) -> None:
        """Run once more, after a pause."""
        self._due_s = self._clock.now_s + after_s

    def turn(self, now_s: float, *, is_wanted: bool) -> Done | None:
        """Start the task if it is due, and return its end if it has just ended."""
        if self._child is None:
            if is_wanted and self._due_s is not None and now_s >= self._due_s:
                self._due_s, self._began_s, self._is_asked_to_end = None, now_s, False
                self._lines = deque(maxlen=_MAX_LINES)
                try:
                    self._child = ChildProcess(self._command(), self._take)
                except OSError as error:
                    # A host without memory may have some later.
                    return self._failed(now_s, 1, f"it can't be started ({error.strerror})")
            return None
        code = self._child.exit_code()
        if code is not None:
            return self._ended(now_s, code)
        if not is_wanted and not self._is_asked_to_end:
            self._is_asked_to_end = True
            self._child.terminate()
        if now_s - self._began_s > self._limit_s:
            self._child.kill()
        return None

    def kill(self) -> None:
        """Kill the process."""
        if self._child is not None:
            self._child.kill()

    def _take(self, line: str) -> None:
        self._lines.append(line)

    def _ended(self, now_s: float, code: int) -> Done | None:
        error = self._child.error() if self._child else ""
        self._child = None
        if self._is_asked_to_end:
            self._next(now_s, self._every_s)
            return None
        if code:
            late = f"it took longer than {self._limit_s:.0f} s"
            last = self._lines[-1] if self._lines else f"exit code {code}"
            return self._failed(now_s, code, error or (late if now_s - self._began_s > self._limit_s else last))
        self._fails_in_a_row, self.done_at_s = 0, time.time()
        self._next(now_s, self._every_s)
        return Done(0, tuple(self._lines), "")

    def _failed(self, now_s: float, code: int, error: str) -> Done:
        retry_s = min(_MAX_RETRY_S, _FIRST_RETRY_S * 2.0 ** min(self._fails_in_a_row, 16))
        self.failures += 1
        self._fails_in_a_row += 1
        self._next(now_s, retry_s if self._every_s is None else min(self._every_s, retry_s))
        return Done(code, tuple(self._lines), error)

    def _next(self, now_s: float, pause_s: float | None) -> None:
        """Run again after a pause, unless the task has been asked to run sooner."""
        if self._due_s is None and pause_s is not None:
            self._due_s = now_s + pause_s

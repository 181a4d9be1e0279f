"""The long-running children of `pid-quota run`: the stream and the console."""

from collections.abc import Callable
from dataclasses import replace

from jobs.run.children import ChildProcess, Command
from jobs.run.errors import PartFailedError
from jobs.run.log import RunLog
from jobs.run.probes import Health, Prober
from jobs.run.supervisor import Do, Part, Rhythm, Seen, step
from jobs.services.steady_clock import SteadyClock

_RETRY_S = 10.0


class LongPart:
    """A part that runs until it is asked to end, and is started again if it ends or hangs."""

    def __init__(
        self,
        name: str,
        command: Callable[[], Command],
        ask: Callable[[], tuple[str, str]],
        log: RunLog,
        clock: SteadyClock,
        rhythm: Rhythm | None = None,
        *,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a part. `ask` asks it for its health, and `prepare` is called before each start."""
        self.name, self._command, self._ask, self._log, self._clock = name, command, ask, log, clock
        self._rhythm, self._prepare = rhythm or Rhythm(), prepare
        self._part = Part()
        self._child: ChildProcess | None = None
        self._prober: Prober | None = None
        self._is_outdated = False

    @property
    def health(self) -> Health:
        """The newest answers of the process that runs now."""
        if self._prober is None or self._part.phase != "runs":
            return Health(unready="it does not run")
        return self._prober.health

    @property
    def is_up(self) -> bool:
        """Whether the part runs, and has answered."""
        return self._part.phase == "runs" and self.health.healthy_at_s is not None

    @property
    def has_process(self) -> bool:
        """Whether there is a process."""
        return self._child is not None

    @property
    def restarts(self) -> int:
        """The number of starts after the first."""
        return self._part.restarts

    @property
    def pid(self) -> int | None:
        """The process id, while there is a process."""
        return self._child.pid if self._child else None

    def restart(self) -> None:
        """Start the part again, because a file of its settings has changed. A pause before its start ends."""
        self._is_outdated = self._child is not None
        self._part = replace(self._part, not_before_s=0.0)

    def turn(self, now_s: float, *, is_wanted: bool) -> bool:
        """Do what has to be done now. Return whether the part has just ended although nobody asked it to.

        Raises:
            PartFailedError: If the part can't run, and no restart helps.
        """
        before = self._part
        code = self._child.exit_code() if self._child else None
        health = self._prober.health if self._prober else Health()
        is_ready = health.healthy_at_s is not None and not health.unready
        seen = Seen(code, health.healthy_at_s, health.complaint, is_ready, is_wanted, self._is_outdated)
        made = step(self._part, seen, now_s, self._rhythm)
        self._part = made.part
        error = self._forget() if code is not None else ""
        if made.do is Do.GIVE_UP:
            raise PartFailedError(error or f"the {self.name} can't run: see its lines above")
        if error:
            self._log.line(self.name, error)
        if made.say:
            self._log.say(f"the {self.name} {made.say}")
        try:
            self._do(made.do)
        except OSError as error:
            # A disk without space, or a host without memory or threads, may have some later.
            self._forget()
            self._log.say(f"the {self.name} can't be started ({error.strerror}): tried again in {_RETRY_S:.0f} s")
            self._part = replace(self._part, phase="waits", not_before_s=now_s + _RETRY_S)
        return code is not None and before.phase == "runs"

    def kill(self) -> None:
        """Kill the process."""
        if self._child is not None:
            self._child.kill()

    def _do(self, what: Do) -> None:
        if what is Do.START:
            self._prepare()
            self._is_outdated = False
            self._prober = Prober(self._ask, self._clock)
            self._child = ChildProcess(self._command(), lambda line: self._log.line(self.name, line))
        elif self._child is not None and what is Do.TERMINATE:
            self._child.terminate()
        elif self._child is not None and what is Do.KILL:
            self._child.kill()

    def _forget(self) -> str:
        """Forget the process that has ended, and return the line with which it failed, or an empty text."""
        error = self._child.error() if self._child else ""
        self._child = None
        if self._prober is not None:
            self._prober.close()
        self._prober = None
        return error

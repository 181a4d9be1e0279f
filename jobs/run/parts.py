"""The long-running children of `pid-quota run`: the stream and the console.

A part waits to be started, runs, or ends after it was asked to. A turn of the loop does what has to be done now.
"""

from collections.abc import Callable

from jobs.errors import WrongSettingError
from jobs.output.terminal import WRONG_SETTING
from jobs.run.children import ChildProcess, Command
from jobs.run.log import RunLog
from jobs.run.probes import Health, Prober
from jobs.services.steady_clock import SteadyClock

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
"""Pause before a part that has ended is started again. It doubles with each end in a row."""
HEALTHY_S = 300.0
"""A part that was ready for this long has the first pause again."""
BEGIN_S, SILENT_S = 300.0, 60.0
"""A part gives its first healthy answer within the first time, and later ones at least this often, or it hangs."""
END_S, END_OF_START_S = 12.0, 3.0
"""A part that was asked to end is killed after this time; one that was never ready has nothing to finish."""
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
        *,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a part. `ask` asks it for its health, and `prepare` is called before each start."""
        self.name, self._command, self._ask, self._log, self._clock = name, command, ask, log, clock
        self._prepare = prepare
        self._child: ChildProcess | None = None
        self._prober: Prober | None = None
        self._starts = self._ends_in_a_row = 0
        self._started_s = self._not_before_s = 0.0
        self._ready_since_s: float | None = None
        self._asked_to_end_s: float | None = None
        # Whether a process of the part was ever ready, so that its settings are right.
        self._is_proven = False
        # Whether a file of the settings has changed since the process began.
        self._is_outdated = False

    @property
    def health(self) -> Health:
        """The newest answers of the process that runs now."""
        if self._prober is None or self._asked_to_end_s is not None:
            return Health(unready="it does not run")
        return self._prober.health

    @property
    def is_up(self) -> bool:
        """Whether the part runs, and has answered."""
        return self.health.healthy_at_s is not None

    @property
    def restarts(self) -> int:
        """The number of starts after the first."""
        return max(0, self._starts - 1)

    @property
    def pid(self) -> int | None:
        """The process id, while there is a process."""
        return self._child.pid if self._child else None

    def restart(self) -> None:
        """Start the part again, because a file of its settings has changed. A pause before its start ends."""
        self._is_outdated, self._not_before_s = self._child is not None, 0.0

    def turn(self, now_s: float, *, is_wanted: bool) -> bool:
        """Do what has to be done now. Return whether the part has just ended although nobody asked it to.

        Raises:
            WrongSettingError: If the part can't run, and no restart helps.
        """
        if self._child is None:
            if is_wanted and now_s >= self._not_before_s:
                self._start(now_s)
            return False
        health = self._prober.health if self._prober else Health()
        if health.healthy_at_s is not None and not health.unready and self._ready_since_s is None:
            self._ready_since_s, self._is_proven = now_s, True
        code = self._child.exit_code()
        if code is not None:
            return self._ended(now_s, code, is_wanted=is_wanted)
        if self._asked_to_end_s is not None:
            if now_s - self._asked_to_end_s >= (END_OF_START_S if self._ready_since_s is None else END_S):
                self._child.kill()
        elif is_wanted and (hang := self._hang(health, now_s)):
            self._say(f"hangs ({hang}): it is killed and started again")
            self._asked_to_end_s = now_s
            self._count_end(now_s)
            self._child.kill()
        elif not is_wanted or self._is_outdated:
            if is_wanted:
                self._say("is started again, because a file of its settings has changed")
            self._asked_to_end_s = now_s
            self._child.terminate()
        return False

    def kill(self) -> None:
        """Kill the process."""
        if self._child is not None:
            self._child.kill()

    def _start(self, now_s: float) -> None:
        self._started_s, self._ready_since_s, self._asked_to_end_s = now_s, None, None
        try:
            self._prepare()
            self._prober = Prober(self._ask, self._clock)
            self._child = ChildProcess(self._command(), lambda line: self._log.line(self.name, line))
        except OSError as error:
            # A disk without space, or a host without memory or threads, may have some later.
            self._forget()
            self._say(f"can't be started ({error.strerror}): tried again in {_RETRY_S:.0f} s")
            self._not_before_s = now_s + _RETRY_S
        else:
            self._is_outdated = False
            self._starts += 1

    def _ended(self, now_s: float, code: int, *, is_wanted: bool) -> bool:
        """Take the end of the process. Return whether nobody asked for it."""
        is_unasked = self._asked_to_end_s is None
        error = self._forget()
        if is_unasked and is_wanted and code == WRONG_SETTING and not self._is_proven:
            raise WrongSettingError(error or f"the {self.name} can't run: see its lines above")
        if error:
            self._log.line(self.name, error)
        if is_unasked:
            self._count_end(now_s)
        if is_unasked and is_wanted:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self._say(f"{how}: it is started again in {self._not_before_s - now_s:.0f} s")
        return is_unasked

    def _count_end(self, now_s: float) -> None:
        """Begin the pause before the next start, after an end that nobody asked for."""
        if self._ready_since_s is not None and now_s - self._ready_since_s >= HEALTHY_S:
            self._ends_in_a_row = 0
        # The exponent has a bound, because a float has one.
        pause_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._ends_in_a_row, 32))
        self._ends_in_a_row += 1
        self._not_before_s = now_s + pause_s

    def _hang(self, health: Health, now_s: float) -> str:
        """Return why the process hangs, or an empty text."""
        if health.complaint:
            return health.complaint
        if health.healthy_at_s is None:
            silent_s, most_s = now_s - self._started_s, BEGIN_S
        else:
            silent_s, most_s = now_s - health.healthy_at_s, SILENT_S
        return f"no answer for {silent_s:.0f} s" if silent_s >= most_s else ""

    def _forget(self) -> str:
        """Forget the process that has ended, and return the line with which it failed, or an empty text."""
        error = self._child.error() if self._child else ""
        if self._prober is not None:
            self._prober.close()
        self._child = self._prober = None
        return error

    def _say(self, what: str) -> None:
        self._log.say(f"the {self.name} {what}")

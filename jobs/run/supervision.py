"""Supervises the children of `pid-quota run`, turn by turn."""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from jobs.errors import JobError, WrongSettingError
from jobs.options import LOGIN_FILE
from jobs.output.terminal import WRONG_SETTING
from jobs.run import commands
from jobs.run.children import reap_orphans
from jobs.run.cluster_look import ClusterLook
from jobs.run.files import WatchedFile
from jobs.run.folder import empty, own_folder
from jobs.run.log import RunLog
from jobs.run.own_metrics import application
from jobs.run.parts import LongPart
from jobs.run.probes import ask_console, ask_stream
from jobs.run.settings import RunSettings, scratch_of
from jobs.run.tasks import Done, Task
from jobs.services.listening import LOOPBACK, Address, listening
from jobs.services.metrics_server import METRICS_OPTION, served
from jobs.services.steady_clock import SteadyClock

TURN_S = 0.2
EVERY_S = 600.0
"""Interval of upkeep and of a census."""
_FIRST_UPKEEP_S = 120.0
"""Upkeep waits until the parts have begun, and comes before a host that restarts often stops again."""
_FILES_EVERY_S = 2.0
_SHORT_S, _LONG_S = 180.0, 1800.0
"""Limits of tasks."""
_STUCK_S = 60.0
"""The loop turns at least this often, or it hangs."""
_END_S = 18.0


def supervise(
    settings: RunSettings,
    log: RunLog,
    stop: threading.Event,
    begun: Callable[[Address, Address], None] = lambda _console, _metrics: None,
) -> None:
    """Run all parts until `stop` is set, then end them. `begun` gets the addresses of the console and the metrics.

    Raises:
        JobError: If the folder or its disk can't be used now, or the tables or the quotas can't be prepared.
        WrongSettingError: If the folder or a part can't be used with these settings.
        AddressTakenError: If a port is taken.
        BadParameter: If an address is not one of this host.
    """
    with ExitStack() as stack:
        settings = stack.enter_context(own_folder(settings))
        # The parent listens also while a child is started again.
        console = stack.enter_context(listening(*settings.console, "--console"))
        stream = stack.enter_context(listening(LOOPBACK, 0))
        metrics = stack.enter_context(listening(*settings.metrics, METRICS_OPTION))
        supervision = Supervision(settings, log, console, stream)
        web = application(supervision.parts, supervision.tasks, log, _address(LOOPBACK, stream))
        port = stack.enter_context(served(metrics, web, supervision.unready, supervision.unwell))
        begun(_address(settings.console[0], console), (settings.metrics[0], port))
        try:
            supervision.turn()
            while not stop.wait(TURN_S):
                supervision.turn()
            log.say("all parts end")
        finally:
            supervision.end()


class Supervision:
    """The children, and when each of them runs."""

    def __init__(self, settings: RunSettings, log: RunLog, console: socket.socket, stream: socket.socket) -> None:
        """Create the children. The console and the stream listen on these sockets."""
        self._log = log
        clock = self._clock = SteadyClock()
        self._look = ClusterLook(settings, log, clock)
        prepared = [Task("tables", partial(commands.create_tables, settings), clock, limit_s=_SHORT_S)]
        if settings.quotas_file is not None:
            prepared.append(Task("quotas", partial(commands.set_quotas, settings), clock, limit_s=_SHORT_S))
        self._prepared = prepared
        self._maintain = Task(
            "maintain",
            partial(commands.maintain, settings),
            clock,
            limit_s=_LONG_S,
            every_s=EVERY_S,
            first_s=_FIRST_UPKEEP_S,
        )
        self._census = Task("census", partial(commands.census, settings), clock, limit_s=_LONG_S, every_s=EVERY_S)
        self._stream = LongPart(
            "stream",
            partial(commands.stream, settings, stream.fileno()),
            partial(ask_stream, _address(LOOPBACK, stream)),
            log,
            clock,
            prepare=lambda: empty(scratch_of(settings, "stream")),
        )
        self._console = LongPart(
            "console",
            partial(commands.console, settings, console.fileno()),
            partial(ask_console, _address(commands.probed(settings.console[0]), console)),
            log,
            clock,
        )
        self._files = [
            (option, WatchedFile(path), changed)
            for option, path, changed in (
                ("--command-config", settings.kafka_config, self._login_changed),
                (LOGIN_FILE, settings.kafka_password_file, self._login_changed),
                # The console reads its token for each request.
                ("--console-token-file", settings.console_token_file, lambda: None),
                ("--quotas-file", settings.quotas_file, prepared[-1].run_again),
            )
            if path is not None
        ]
        self._files_at_s = 0.0
        self._said: dict[str, str] = {}

    @property
    def parts(self) -> tuple[LongPart, LongPart]:
        """The long-running children."""
        return self._stream, self._console

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The short-lived children."""
        return *self._prepared, self._maintain, self._census

    def unwell(self) -> str:
        """Return why the supervision itself hangs, or an empty text. It does not depend on Kafka."""
        stuck_s = self._clock.silent_s()
        return f"the supervision has not turned for {stuck_s:.0f} s" if stuck_s > _STUCK_S else ""

    def unready(self) -> str:
        """Return why quotas or the console don't work now, or an empty text."""
        reasons = [f"{task.name}: being prepared" for task in self._prepared if not task.is_done]
        if self._look.state in ("unknown", "away"):
            reasons.append(f"stream: {self._look.reason}")
        elif self._look.state == "ready" and self._stream.health.unready:
            reasons.append(f"stream: {self._stream.health.unready}")
        if self._console.health.unready:
            reasons.append(f"console: {self._console.health.unready}")
        return "; ".join(reasons)

    def turn(self) -> None:
        """Do all that has to be done now."""
        now_s = self._clock.tick()
        if now_s - self._files_at_s >= _FILES_EVERY_S:
            self._files_at_s = now_s
            self._look_at_files()
        self._look.turn(now_s, is_wanted=True)
        is_prepared = self._prepare(now_s)
        if self._stream.turn(now_s, is_wanted=is_prepared and self._look.state == "ready"):
            self._look.look_again()
        self._console.turn(now_s, is_wanted=is_prepared)
        self._tell(self._maintain.turn(now_s, is_wanted=is_prepared), self._maintain)
        self._tell(self._census.turn(now_s, is_wanted=is_prepared and self._look.state == "bare"), self._census)
        self._reap()

    def end(self) -> None:
        """End all children, and kill what does not end in time."""
        give_up_at = time.monotonic() + _END_S
        while any(child.pid for child in self._children()):
            is_late, now_s = time.monotonic() > give_up_at, self._clock.tick()
            for child in self._children():
                if is_late:
                    child.kill()
                child.turn(now_s, is_wanted=False)
            self._reap()
            if time.monotonic() > give_up_at + 1:
                return
            time.sleep(TURN_S / 4)

    def _look_at_files(self) -> None:
        """Tell those whose files have changed, and say once that a file is gone, or is back."""
        for option, file, changed in self._files:
            before = file.unreadable
            if file.has_changed():
                changed()
            if bool(before) != bool(file.unreadable):
                how = f"can't be read ({file.unreadable}): what was read before stays in force"
                self._log.say(f"{option} {file.path} {how if file.unreadable else 'can be read again'}")

    def _login_changed(self) -> None:
        self._stream.restart()
        self._look.settings_changed()

    def _prepare(self, now_s: float) -> bool:
        """Run the tasks that come before all others, one after the other. Return whether they are done."""
        for task in self._prepared:
            was_done = task.is_done
            done = task.turn(now_s, is_wanted=True)
            if done and done.exit_code and not was_done:
                raise (WrongSettingError if done.exit_code == WRONG_SETTING else JobError)(done.error)
            self._tell(done, task)
            if not task.is_done:
                return False
        return True

    def _tell(self, done: Done | None, task: Task) -> None:
        """Print what a task has to say: changes of quotas, and each new failure once."""
        if done is None:
            return
        if done.exit_code == 0:
            self._said.pop(task.name, None)
            for line in done.lines if task.name == "quotas" else ():
                self._log.line(task.name, line)
        elif self._said.get(task.name) != done.error:
            self._said[task.name] = done.error
            stays = "; the quotas in force stay" if task.name == "quotas" else ""
            self._log.line(task.name, f"{done.error}{stays}")

    def _reap(self) -> None:
        if os.getpid() == 1:
            reap_orphans(frozenset(each.pid for each in self._children() if each.pid))

    def _children(self) -> list[LongPart | Task]:
        return [*self.parts, *self.tasks, self._look.task]


def _address(host: str, listener: socket.socket) -> Address:
    return host, listener.getsockname()[1]

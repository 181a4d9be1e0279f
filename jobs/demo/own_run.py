"""The demo's `pid-quota run`, in a thread of the demo's process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import typer

from jobs.demo.interrupts import Interrupts
from jobs.errors import AddressTakenError, JobError
from jobs.output.terminal import OUR_ERRORS, one_line
from jobs.run.log import RunLog
from jobs.run.probes import get
from jobs.run.settings import RunSettings
from jobs.run.supervision import supervise
from jobs.services.listening import LOOPBACK, Address, in_url, listening

CONSOLE_PORT = 8080
"""The console's port. If another program uses it, the demo takes a free port."""

_READY_WITHIN_S = 300.0
_POLL_S = 0.1
_QUOTED_CHARS = 400


class OwnRun:
    """A `pid-quota run`.

    Attributes:
        console: where the console is; None before it listens.
        metrics: where the metrics are.
    """

    def __init__(self, settings: RunSettings, log: Path, interrupts: Interrupts) -> None:
        self._settings, self._log, self._interrupts = settings, log, interrupts
        log.touch()
        self._stop = threading.Event()
        self._error: Exception | None = None
        self.console: Address | None = None
        self.metrics: Address | None = None
        # If Ctrl-C arrives before the `with` block, nobody ends this thread. It ends with the process, and so do the
        # processes that it has started.
        self._thread = threading.Thread(target=self._supervise, name="run", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End all parts."""
        self._stop.set()
        self._thread.join()

    def require_alive(self) -> None:
        """Raise the error that has ended it, or KeyboardInterrupt if a signal has come."""
        self._interrupts.check()
        if self._error is not None:
            raise self._error

    def await_console(self) -> str:
        """Wait until the console's address accepts connections, and return its URL."""
        while self.console is None:
            self.require_alive()
            time.sleep(_POLL_S)
        return f"http://{in_url(self.console)}/"

    def await_ready(self) -> None:
        """Wait until `/readyz` tells that quotas and the console work.

        Raises:
            JobError: If a part does not stay up, or it takes too long.
        """
        give_up_at = time.monotonic() + _READY_WITHIN_S
        while reason := self._unready():
            self.require_alive()
            log = self._log.read_text(encoding="utf-8")
            if "started again" in log or time.monotonic() > give_up_at:
                msg = f"`pid-quota run` is not ready ({reason}): {one_line(log[-_QUOTED_CHARS:])}. Its log: {self._log}"
                raise JobError(msg)
            time.sleep(_POLL_S)

    def _unready(self) -> str:
        if self.metrics is None:
            return "it starts"
        try:
            status, text = get(self.metrics, "/readyz")
        except (OSError, HTTPException):
            return "it does not answer"
        return "" if status == 200 else text.strip()

    def _supervise(self) -> None:
        with self._log.open("w", encoding="utf-8") as file:
            log = RunLog(output=file)
            try:
                supervise(self._settings, log, self._stop, self._has_begun)
            except (*OUR_ERRORS, typer.BadParameter) as error:
                self._error = error
            finally:
                log.close()

    def _has_begun(self, console: Address, metrics: Address) -> None:
        self.console, self.metrics = console, metrics


@contextmanager
def own_run(settings: RunSettings, log: Path, interrupts: Interrupts) -> Iterator[OwnRun]:
    """Run `pid-quota run` during the `with` block, with its log in a file."""
    run = OwnRun(settings, log, interrupts)
    try:
        yield run
    finally:
        run.stop()


def console_port(wanted: int = CONSOLE_PORT) -> int:
    """Return the wanted port if it is free, else 0, which selects a free port."""
    try:
        listening(LOOPBACK, wanted).close()
    except AddressTakenError:
        return 0
    return wanted

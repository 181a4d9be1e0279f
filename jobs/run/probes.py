"""Asks parts over HTTP whether they are well, each in a thread of its own."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from jobs.run.children import start_thread
from jobs.services.listening import Address
from jobs.services.steady_clock import SteadyClock

ASK_EVERY_S = 5.0
_ASK_FIRST_S = 1.0
"""Interval until a part is ready."""
TIMEOUT_S = 10.0
_MAX_BYTES = 64_000_000


@dataclass(frozen=True)
class Health:
    """The newest answers of a part.

    Attributes:
        healthy_at_s: when it was well, by the clock of the supervision; None if it has not answered yet.
        complaint: what it says needs a restart.
        unready: why it is not ready; empty if it is.
    """

    healthy_at_s: float | None = None
    complaint: str = ""
    unready: str = "it starts"


def get(address: Address, path: str, timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
    """Return the status and the text of an answer. Raises OSError or HTTPException if there is none in time."""
    connection = HTTPConnection(*address, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_BYTES).decode(errors="replace")
    finally:
        connection.close()


def ask_stream(address: Address) -> tuple[str, str]:
    """Return the stream's complaint, and why it is not ready."""
    status, text = get(address, "/healthz")
    if status != 200:
        return text.strip() or f"status {status}", "it is not well"
    status, text = get(address, "/readyz")
    return "", "" if status == 200 else text.strip()


def ask_console(address: Address) -> tuple[str, str]:
    """Return no complaint and no reason if the console answers, whatever the answer: it may want a token."""
    get(address, "/")
    return "", ""


class Prober:
    """Asks a part again and again until it is closed. Raises OSError if it can't begin."""

    def __init__(self, ask: Callable[[], tuple[str, str]], clock: SteadyClock) -> None:
        self._ask, self._clock = ask, clock
        self._closed = threading.Event()
        self.health = Health()
        start_thread("probe", self._run)

    def close(self) -> None:
        """End, without waiting for an answer."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_ASK_FIRST_S if self.health.unready else ASK_EVERY_S):
            before = self.health
            try:
                complaint, unready = self._ask()
            except (OSError, HTTPException):
                self.health = Health(before.healthy_at_s, before.complaint, before.unready or "it does not answer")
                continue
            healthy_at_s = before.healthy_at_s if complaint else self._clock.now_s
            self.health = Health(healthy_at_s, complaint, unready)

"""What parts answer, and what is known of them while they do not."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.client import BadStatusLine

import pytest

from jobs.run import probes
from jobs.run.probes import Health, Prober, ask_console, ask_stream, get
from jobs.services.listening import LOOPBACK, listening
from jobs.services.metrics_server import served
from tests.kits.child_kit import HandClock
from tests.kits.run_kit import LIMIT_S


class Well:
    """A part over HTTP, with the reasons that the test sets."""

    def __init__(self, port: int) -> None:
        self.address = (LOOPBACK, port)
        self.unwell = self.unready = ""


@pytest.fixture
def part() -> Iterator[Well]:
    with listening(LOOPBACK, 0) as listener:
        found = Well(listener.getsockname()[1])

        def page(_request: object, start: Callable[..., object]) -> list[bytes]:
            start("401 Unauthorized", [])
            return [b"a token is required"]

        with served(listener, page, lambda: found.unready, lambda: found.unwell):
            yield found


def test_a_stream_has_a_complaint_if_it_hangs_and_a_reason_if_it_only_waits(part: Well) -> None:
    assert ask_stream(part.address) == ("", "")
    part.unready = "no batch has ended yet"
    assert ask_stream(part.address) == ("", "no batch has ended yet")
    part.unwell = "the JVM has not answered for 61 s"
    assert ask_stream(part.address) == ("the JVM has not answered for 61 s", "it is not well")


def test_a_console_that_wants_a_token_is_well(part: Well) -> None:
    assert ask_console(part.address) == ("", "")


def test_a_part_that_takes_a_connection_and_never_answers_is_not_waited_for() -> None:
    with socket.create_server((LOOPBACK, 0)) as deaf:
        began_s = time.monotonic()
        with pytest.raises(OSError, match="timed out"):
            get((LOOPBACK, deaf.getsockname()[1]), "/healthz", 0.2)
    assert time.monotonic() - began_s < LIMIT_S


class Asked:
    """A part that is asked as soon as possible. Each answer is taken when the test gives it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probes, "_ASK_FIRST_S", 0.001)
        monkeypatch.setattr(probes, "ASK_EVERY_S", 0.001)
        self.clock = HandClock()
        self.answer: tuple[str, str] | Exception = ("", "")
        self._may_answer = threading.Semaphore(0)
        self.times = 0
        self._is_asked = threading.Event()
        self.prober = Prober(self._ask, self.clock)

    def __call__(self, answer: tuple[str, str] | Exception) -> Health:
        """Answer once a second later, and return what is known then."""
        self.clock.pass_s(1)
        self._wait_for_question()
        self.answer = answer
        self._is_asked.clear()
        self._may_answer.release()
        # The next question comes after the answer was taken.
        self._wait_for_question()
        return self.prober.health

    def _wait_for_question(self) -> None:
        assert self._is_asked.wait(30), "it is not asked any more"

    def end(self) -> None:
        """Close the prober while it waits for an answer."""
        self._wait_for_question()
        self.prober.close()
        self._may_answer.release()

    def _ask(self) -> tuple[str, str]:
        self.times += 1
        self._is_asked.set()
        self._may_answer.acquire()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_part_counts_as_healthy_since_its_newest_good_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    assert asked.prober.health == Health(None, "", "it starts")
    assert asked(ConnectionRefusedError()) == Health(None, "", "it starts")
    assert asked(("", "no batch has ended yet")) == Health(2, "", "no batch has ended yet")
    assert asked(("", "")) == Health(3, "", "")
    assert asked(TimeoutError()) == Health(3, "", "it does not answer")
    assert asked(BadStatusLine("x")) == Health(3, "", "it does not answer")
    assert asked(("", "")) == Health(6, "", "")
    assert asked(("the JVM has stopped", "it is not well")) == Health(6, "the JVM has stopped", "it is not well")
    # and a complaint stays while nobody answers
    assert asked(ConnectionResetError()) == Health(6, "the JVM has stopped", "it is not well")
    asked.end()


def test_a_part_is_not_asked_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    asked(("", ""))
    asked.end()
    # It was asked once more before it ended.
    time.sleep(0.2)
    assert asked.times == 2

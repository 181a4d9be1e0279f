"""A signal ends a command, whatever its main thread does at that moment."""

import signal
import subprocess
import sys
import time

import pytest

from jobs.services.stopping import stopped_by_signals, until_interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)


pytestmark = pytest.mark.usefixtures("signals_as_before")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_comes_while_the_main_thread_holds_the_event_s_lock_ends_the_wait(number: signal.Signals) -> None:
    stop = stopped_by_signals()
    # Python's own name; `Event.wait` holds it, too, before and after it sleeps.
    with stop.__dict__["_cond"]:
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert not stop.is_set()

    assert stop.wait(60)


def test_without_a_signal_it_is_not_set() -> None:
    assert not stopped_by_signals().wait(0.05)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_block_without_an_error_and_leaves_the_handlers_as_they_were(number: signal.Signals) -> None:
    received = list[int]()

    def earlier(number: int, _frame: object) -> None:
        received.append(number)

    for each in SIGNALS:
        signal.signal(each, earlier)

    def block() -> bool:
        with until_interrupted():
            signal.raise_signal(number)
            return False
        return True

    try:
        was_ended = block()
    except KeyboardInterrupt:
        was_ended = False

    assert (was_ended, received) == (True, [])
    assert [signal.getsignal(each) for each in SIGNALS] == [earlier, earlier]


PROGRAM = """
import signal, time
from jobs.services.stopping import until_interrupted
with until_interrupted(0.2):
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        time.sleep(600)
"""


def test_a_block_that_does_not_end_in_time_ends_with_its_process() -> None:
    assert subprocess.run([sys.executable, "-c", PROGRAM], timeout=60, check=False).returncode == 0


def test_a_block_that_ends_in_time_does_not_end_its_process() -> None:
    for _ in range(2):
        with until_interrupted(0.2):
            signal.raise_signal(signal.SIGTERM)
    time.sleep(0.5)

"""A signal ends a command, whatever its main thread does at that moment."""

import signal

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

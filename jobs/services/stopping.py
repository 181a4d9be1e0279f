"""Two ways to end a command by Ctrl-C or SIGTERM: an event for loops to check, and a block that a signal ends."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set. Call it from the main thread.

    A thread sets the event, because a signal handler interrupts the main thread, which may hold the event's lock.
    """
    stop = threading.Event()
    arrived: SimpleQueue[int] = SimpleQueue()

    def set_when_one_arrives() -> None:
        arrived.get()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: arrived.put(received))
    threading.Thread(target=set_when_one_arrives, name="stop", daemon=True).start()
    return stop


@contextmanager
def until_interrupted(within_s: float | None = None) -> Iterator[None]:
    """Run a `with` block that Ctrl-C or SIGTERM ends without an error.

    If the block has not ended `within_s` seconds after the signal, the process ends with exit code 0.
    """
    ends: list[threading.Timer] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if within_s is not None:
            ends.append(threading.Timer(within_s, os._exit, (0,)))
            ends[-1].daemon = True
            ends[-1].start()
        signal.default_int_handler(number, frame)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        for each in ends:
            each.cancel()
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)

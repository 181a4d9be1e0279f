"""Ends commands that run until Ctrl-C or SIGTERM."""

import signal
import threading
from queue import SimpleQueue


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set; call it from the main thread.

    A thread of its own sets it. Python runs signal handlers in the main thread, between any two of its steps: one that
    called `Event.set` while that thread holds the event's lock in `Event.wait` would wait for ever. `SimpleQueue.put`
    is made for that place: it takes no lock.
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

"""Ctrl-C and SIGTERM, which end the demo at any moment."""

import signal
import sys
from collections.abc import Callable


class Interrupts:
    """Raises KeyboardInterrupt on Ctrl-C and SIGTERM.

    Python prints and drops an exception in a finalizer. So this does not let it print, and a loop that waits also calls
    `check`.
    """

    def __init__(self) -> None:
        self._has_come = False
        self._print, sys.unraisablehook = sys.unraisablehook, self._dropped
        self._handle(self._take)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self._has_come:
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """Ignore further signals, so that they don't interrupt a shutdown."""
        self._handle(signal.SIG_IGN)

    def _take(self, *_: object) -> None:
        self._has_come = True
        raise KeyboardInterrupt

    def _dropped(self, found: "sys.UnraisableHookArgs") -> None:
        if found.exc_type is not KeyboardInterrupt:
            self._print(found)

    @staticmethod
    def _handle(what: Callable[..., None] | signal.Handlers) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, what)

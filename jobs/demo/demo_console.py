"""The demo's console: `pid-quota console` on the loopback address, in a thread that ends with the demo."""

import threading
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import typer

from jobs.web.command import application, listening, server
from jobs.web.pages import ConsoleData
from jobs.web.security import Access, own_names

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 8080
"""The console's port. If another program uses it, the demo takes a free port."""

_HOST = "127.0.0.1"
_REFRESH_S = 2.0
_FRESH_S = 1.0
_SPAN_HOURS = 0.1
_END_WITHIN_S = 10.0


class DemoConsole:
    """A server of the console, which runs from `open` to the end of the `with` block."""

    def __init__(self, tables: str, port: int = PORT) -> None:
        self._tables, self._wanted, self._port = tables, port, 0
        self._end: Callable[[], None] = lambda: None

    def __enter__(self) -> "DemoConsole":
        return self

    def open(self) -> None:
        """Start the server. The tables must exist."""
        try:
            listener = listening(_HOST, self._wanted)
        except typer.BadParameter:
            # The port is taken.
            listener = listening(_HOST, 0)
        self._port = listener.getsockname()[1]
        access = Access(names=own_names(_HOST), cookie=f"pid_quota_demo_{self._port}")
        running = server(application(ConsoleData(self._tables), access, fresh_s=_FRESH_S, refresh_s=_REFRESH_S))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, name="console", daemon=True)
        thread.start()

        def end() -> None:
            running.should_exit = True
            thread.join(_END_WITHIN_S)
            listener.close()

        self._end = end

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def address(self) -> str:
        """The console's URL, for browsers on this machine."""
        return f"http://{_HOST}:{self._port}/"

    def page_of(self, principal: str) -> str:
        """Return the URL of a principal's page that shows the last six minutes.

        Examples:
            >>> DemoConsole("./demo-data").page_of("User:mallory")
            'http://127.0.0.1:0/#/principal?name=User%3Amallory&hours=0.1'
        """
        return f"{self.address}#/principal?{urlencode({'name': principal, 'hours': _SPAN_HOURS})}"

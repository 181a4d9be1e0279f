"""The demo's output: stages with their times, a live table of principals, and the result."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from jobs.output.terminal import printable
from jobs.output.text_tables import TextTable
from jobs.top.command import rows_table
from tables.query.top_rows import TopRow

_PLAIN_LINE_EVERY_S = 5.0
"""Seconds between the plain lines that replace the live table if there is no terminal."""


class DemoView:
    """A view of the demo's progress: a live table on a terminal, else plain lines."""

    def __init__(
        self, console: Console, clock: Callable[[], float] = time.monotonic, begin: float | None = None
    ) -> None:
        self._console, self._clock = console, clock
        self._begin = clock() if begin is None else begin
        self._last_plain_line = self._begin
        self._live: Live | None = None

    def __enter__(self) -> "DemoView":
        return self

    def __exit__(self, *_: object) -> None:
        self.end_live()

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return self._clock() - self._begin

    def stage(self, text: str) -> None:
        """Print a stage with the seconds since the demo began."""
        # Soft-wrap the line, because you can't copy a hard-wrapped command.
        self._console.print(printable(f"[{self.seconds:5.1f} s] {text}"), soft_wrap=True)

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Return a context manager that shows `text` on a terminal while a step runs."""
        return self._console.status(text) if self._console.is_terminal else nullcontext()

    def print_line(self, text: str) -> None:
        """Print a line."""
        self._console.print(printable(text), soft_wrap=True)

    def show(self, table: TextTable) -> None:
        """Print a table."""
        self._console.print(table)
        self._console.print()

    def update(self, rows: Sequence[TopRow], text: str) -> None:
        """Show the present state of the principals."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False)
                self._live.start()
            line = Text(f"{self.seconds:.0f} s, {text}", "italic")
            self._live.update(Group(line, rows_table(rows)) if rows else line, refresh=True)
        elif self._clock() - self._last_plain_line >= _PLAIN_LINE_EVERY_S:
            self._last_plain_line = self._clock()
            text_of_rows = "; ".join(f"{row.principal} {row.new_pids} new, {row.refused_pids} refused" for row in rows)
            self.stage(f"{text}: {text_of_rows}" if text_of_rows else text)

    def end_live(self) -> None:
        """Stop updating the live table. Later lines follow below it."""
        if self._live is not None:
            self._live.stop()
            self._live = None

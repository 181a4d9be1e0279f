"""The demo's output: stages with their times, a live table of principals, and the result."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from jobs.output.terminal import printable
from jobs.output.text_tables import TextTable
from tables.query.sql_query import query

_PLAIN_LINE_EVERY_S = 5.0
"""Seconds between the plain lines that replace the live table if there is no terminal."""

_PRINCIPALS = """
SELECT counts.principal, latest.new_pids_window, latest.tokens, latest.throttle_time_ms, counts.admitted,
    counts.refused, throttles.throttled_until
FROM (
    SELECT principal, CAST(sum(admitted_pids) AS BIGINT) AS admitted, CAST(sum(refused_pids) AS BIGINT) AS refused,
        max(window_end) AS newest
    FROM principal_metrics GROUP BY principal
) AS counts
JOIN principal_metrics AS latest ON latest.principal = counts.principal AND latest.window_end = counts.newest
LEFT JOIN (
    SELECT principal, max(throttled_until) AS throttled_until FROM current_throttles GROUP BY principal
) AS throttles ON throttles.principal = counts.principal
ORDER BY counts.principal
"""


@dataclass(frozen=True)
class PrincipalRow:
    """A principal's state in the tables."""

    principal: str
    new_pids_window: int
    tokens: float | None
    throttle_time_ms: int
    admitted: int
    refused: int
    throttled_until: datetime | None


def read_principals(tables: str, now: datetime) -> list[PrincipalRow]:
    """Read the newest state of each principal."""
    return [PrincipalRow(*row) for row in query(tables, _PRINCIPALS, now).rows]


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

    def update(self, rows: list[PrincipalRow], text: str) -> None:
        """Show the present state of the principals."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False)
                self._live.start()
            line = f"{self.seconds:.0f} s, {text}"
            self._live.update(principals_table(rows, line) if rows else Text(line), refresh=True)
        elif self._clock() - self._last_plain_line >= _PLAIN_LINE_EVERY_S:
            self._last_plain_line = self._clock()
            text_of_rows = "; ".join(f"{row.principal} admitted {row.admitted}, refused {row.refused}" for row in rows)
            self.stage(f"{text}: {text_of_rows}" if text_of_rows else text)

    def end_live(self) -> None:
        """Stop updating the live table. Later lines follow below it."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def principals_table(rows: list[PrincipalRow], title: str) -> TextTable:
    """Return the principals as a table."""
    values = (
        (
            row.principal,
            row.new_pids_window,
            None if row.tokens is None else f"{row.tokens:.2f}",
            f"{row.throttle_time_ms / 1000:.1f} s",
            row.admitted,
            row.refused,
            None if row.throttled_until is None else f"{row.throttled_until:%H:%M:%S} UTC",
        )
        for row in rows
    )
    numbers = ("new /window", "tokens", "throttle time", "admitted", "refused", "throttled until")
    return TextTable(("principal", *numbers), values, title=title, right=numbers)

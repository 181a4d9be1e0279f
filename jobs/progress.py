"""What commands that take long say meanwhile: on standard error, and only where somebody looks."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jobs.terminal import printable

Report = Callable[[float, float], None]
"""Takes how much is done, and of how much."""

_STEP_S = 0.5


def unheard(_done: float, _total: float) -> None:
    """Take a report that nobody wants."""


def say(text: str, console: Console | None = None) -> None:
    """Say what a command does that prints nothing for a long time."""
    console = console or Console(stderr=True)
    if console.is_terminal:
        console.print(printable(text), soft_wrap=True)


@contextmanager
def progress_bar(what: str, console: Console | None = None) -> Iterator[Report]:
    """Show a bar that is gone when the work is done.

    Args:
        what: What is being done.
        console: Where to; standard error by default, and nothing is shown if that is not a terminal.
    """
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=int(done), total=int(total))


def wait(what: str, seconds: float) -> None:
    """Sleep, with a bar."""
    end = time.monotonic() + seconds
    with progress_bar(what) as report:
        while (left := end - time.monotonic()) > 0:
            report(seconds - left, seconds)
            time.sleep(min(_STEP_S, left))

"""Shows the progress of long commands if standard error is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

ProgressReport = Callable[[float, float], None]
"""A function that takes the amount done and the total."""


@contextmanager
def progress_bar(what: str, console: Console | None = None) -> Iterator[ProgressReport]:
    """Show a progress bar until the block ends."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=int(done), total=int(total))

"""Tables for people, at any width: no value is cut, no column is lost, and names stay whole.

A row is a line if all columns fit. Otherwise the last column wraps if it holds text, or each row becomes a block of
lines `name value`; columns without any value are then named once, below the rows.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from jobs.output.human import NOTHING, human
from jobs.output.terminal import printable

_EMPTY = ("", NOTHING)
_MIN_TEXT = 24
"""Least width to wrap the last column's text in."""
_MIN_BESIDE = 12
"""Least width of a value beside its name; a value takes its own lines otherwise."""
_UNLIMITED = 1_000_000


class TextTable:
    """A table that fits itself to the console.

    Args:
        columns: Names, the most important first.
        rows: A value per column, None for nothing; values at the end may be missing.
        title: A line above the table.
        right: Columns aligned to the right; columns with numbers only always are.
        gap: Blanks between columns.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        title: str | None = None,
        right: Collection[str] = (),
        gap: int = 2,
    ) -> None:
        values = [[value for value, _ in zip_longest(row, columns)] for row in rows]
        self._title, self._gap = title, gap
        self._columns = [_Column(name, [row[at] for row in values], name in right) for at, name in enumerate(columns)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        if self._title is not None:
            yield Text(self._title, style="italic")
        grid = self._grid(self._columns)
        if _width(console, options, grid) <= options.max_width:
            yield from _lines(console, options, grid)
            return
        columns = [column for column in self._columns if not column.is_empty]
        others = _width(console, options, self._grid(columns[:-1]))
        room = options.max_width - others - self._gap
        if columns and columns[-1].is_text and room >= _MIN_TEXT:
            yield from _lines(console, options, self._grid(columns, wraps=True))
        elif columns and _width(console, options, self._grid(columns)) <= options.max_width:
            yield from _lines(console, options, self._grid(columns))
        else:
            yield from self._blocks(columns, console, options.max_width)
        if empty := [column.name.plain for column in self._columns if column.is_empty]:
            yield from _wrapped(console, Text(f"nothing in {', '.join(empty)}", "dim"), options.max_width)

    def _grid(self, columns: Sequence["_Column"], *, wraps: bool = False) -> Table:
        grid = Table(box=None, padding=(0, self._gap, 0, 0), pad_edge=False, header_style="bold")
        for at, column in enumerate(columns, start=1):
            grid.add_column(
                column.name,
                justify="right" if column.is_right else "left",
                no_wrap=not (wraps and at == len(columns)),
                overflow="fold",
            )
        for row in zip(*(column.cells for column in columns), strict=True):
            grid.add_row(*row)
        return grid

    def _blocks(self, columns: Sequence["_Column"], console: Console, width: int) -> Iterator[Text]:
        beside = max((cell_len(column.name.plain) for column in columns), default=0) + self._gap
        indent = beside if width - beside >= _MIN_BESIDE else self._gap
        for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
            if number:
                yield Text()
            for column, cell in zip(columns, row, strict=True):
                name = Text(column.name.plain, "bold")
                lines = _wrapped(console, cell, width - indent)
                if indent == beside:
                    yield name + Text(" " * (beside - cell_len(name.plain))) + lines.pop(0)
                else:
                    yield from _wrapped(console, name, width)
                yield from (Text(" " * indent) + line for line in lines)


class _Column:
    def __init__(self, name: str, values: Sequence[object], is_right: bool) -> None:
        self.name = printable(name)
        self.cells = [value if isinstance(value, Text) else printable(human(value)) for value in values]
        self.is_empty = all(cell.plain in _EMPTY for cell in self.cells)
        self.is_text = any(" " in cell.plain for cell in self.cells)
        self.is_right = is_right or _is_numeric(values)


def _width(console: Console, options: ConsoleOptions, grid: Table) -> int:
    return Measurement.get(console, options.update(width=_UNLIMITED), grid).maximum


def _lines(console: Console, options: ConsoleOptions, grid: Table) -> Iterator[Text]:
    """Yield the lines of a grid without blanks at their ends."""
    for segments in console.render_lines(grid, options, pad=False):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        yield line


def _wrapped(console: Console, text: Text, width: int) -> list[Text]:
    """Return a text in lines, one at least."""
    lines = list(text.wrap(console, max(1, width)))
    for line in lines:
        line.rstrip()
    return lines or [Text()]


def _is_numeric(values: Sequence[object]) -> bool:
    numbers = [value for value in values if value is not None]
    return bool(numbers) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers)
